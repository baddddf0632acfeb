// SPDX-License-Identifier: Apache-2.0

// What does Docker Compose read from a file? In: its name. Out: the project with every variable and default filled in, as YAML; or why
// it is refused. Compose's own library reads it, by the schema of the specification.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv, cli.WithInterpolation(true))
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	text, err := project.MarshalYAML()
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
}
