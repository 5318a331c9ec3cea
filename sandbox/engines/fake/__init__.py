"""A fake vLLM: the image's contract without a GPU or a model, in a fraction of a second.

    ENGINE_VERSION=0.23.0 python -m sandbox.engines.fake --model=Qwen/Qwen3-8B --speculative-config=... --host 127.1.0.5

True: it takes vLLM's arguments and refuses what that version refuses, in vLLM's words and with its exit code; log,
metrics and responses have that version's formats; counters are those of an n-gram proposer (of the version's runner)
that really ran over the tokens of each request.

Not true: the model. A prompt that asks to have a text back gets that text, renames applied (answers.py), one for the
capital of France a sentence, any other words that repeat nothing, so that a copy is drafted and prose is not. A JSON
schema gets the first object that it allows. Tokens are pieces of words of our own (tokens.py). Temperature, tools,
images and other structured output have no effect, n > 1 and methods other than n-gram draft nothing. Times are slept,
not worked: requests do not slow each other down.

Environment: ENGINE_VERSION ("0.23.0"; default: the newest known), ENGINE_DEVICE ("cuda", the default, or "cpu");
VLLM_LOG_STATS_INTERVAL, VLLM_API_KEY, VLLM_USE_V2_MODEL_RUNNER and VLLM_CPU_KVCACHE_SPACE as vLLM reads them; and
FAKE_ENGINE, one JSON object (PUT /fake/settings takes another one while the engine serves):

Speed
    load_seconds        from start to serving (0)
    tokens_per_second   decode steps per second of a request; a step gives one token and the accepted drafts (1000);
                        0: no pause at all
    ttft_seconds        from a request's admission to its first token (0)
    draft_cost          how much longer a step takes for each draft it verifies, as a share of the step (0)
Answers
    answer_tokens       length of an answer in prose (64)
    acceptance          chance that a right draft is accepted, for each position (1); 0: drafts are never accepted
    answer              "copy" (the default, see above), "prose", "empty" (ends at once), "loop" (one word again and
                        again), "garbage" (signs without sense), or {"text": "..."}
    question            the answer to the known question: "known" (the default), "prose", "empty", "loop", "garbage"
    guided              the answer to a JSON schema: "valid" (the default), "invalid" (it breaks off), "ignored" (the
                        schema has no effect), "refused" (HTTP 400: not supported), "failing" (HTTP 500)
    think               true: thinking comes first; false: never (default: as a Qwen3 model, unless enable_thinking is
                        false for the server or the request)
Machine
    device_memory_gib   what weights and KV cache have to fit into (22.03, an L4 on GCP)
Faults
    exit                it ends at start with a real message: "cuda_803", "kv_cache_too_small", "no_cache_blocks",
                        "out_of_memory", "free_memory", "gated_model", "unknown_model", "no_hub", "unsupported_arch",
                        "disk_full", "unknown_argument", or {"message": "...", "code": 1}
    hang_loading        true: it never gets beyond loading weights
    ignore_speculation  true: it comes up without the speculation that it was told to use (every witness says so)
    never_draft         true: speculation is on and no draft is ever made
    status              {"/v1/chat/completions": 404, ...}: these paths answer with this status and nothing else
    crash_after         after that many completions the engine core dies with the next request, and the server with it
    usage               false: no usage in any response
    stall_seconds       pause in the middle of every answer (0)
    cut_stream          true: a stream breaks off in the middle
    merge_steps         steps that one stream event carries (1)
    split_steps         true: one event for each token, whatever a step gave
    start_lines         false: the log lacks its start-up lines, as after a rotation
    lie                 the one witness that says the opposite about speculation, or a wrong version: "args_line",
                        "config_line", "metrics" or "version"
    print_api_key       true: the API key stands in the args line, also in versions that mask it
    keep_alive_comments true: streams carry SSE comments between events
"""
