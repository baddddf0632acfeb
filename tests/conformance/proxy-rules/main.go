// SPDX-License-Identifier: Apache-2.0

// Which proxy do Go's clients use for a URL? In: JSON on standard input, a list of objects with the environment and the URL.
// Out: a line for each with the proxy's host and port, `direct`, or `refused`.
package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

type request struct {
	Environment map[string]string
	URL         string
}

func main() {
	var requests []request
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		panic(err)
	}
	for _, one := range requests {
		fmt.Println(answer(one))
	}
}

func answer(one request) string {
	os.Clearenv()
	for name, value := range one.Environment {
		os.Setenv(name, value)
	}
	parsed, err := url.Parse(one.URL)
	if err != nil {
		return "refused"
	}
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(parsed)
	if err != nil {
		return "refused"
	}
	if proxy == nil {
		return "direct"
	}
	return proxy.Host
}
