// The Pulumi Kubernetes provider, started from its own library: the official binary is not a Go module.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

// version is set by the build to the version of the Python SDK, which is how the engine matches the two.
var version = "0.0.0"

func main() {
	go endWithParent()
	schema := fmt.Sprintf(`{"name":"kubernetes","version":%q}`, version)
	// The second document is only read by "import", which the sandbox does not use.
	provider.Serve("kubernetes", version, []byte(schema), []byte("{}"))
}

// endWithParent ends this process with the CLI that started it, which may be killed without a word.
func endWithParent() {
	for parent := os.Getppid(); os.Getppid() == parent; {
		time.Sleep(time.Second)
	}
	os.Exit(0)
}
