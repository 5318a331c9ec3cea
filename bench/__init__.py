"""What speculation is worth on one's own prompts: load client, paired comparison, and replay before anything runs."""
