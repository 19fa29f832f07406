// A Go service that calls Weir for each request, with the standard library only.
//
//	weir serve --config examples/proxies/weir.yaml
//	go run examples/go/service.go
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const weir = "http://127.0.0.1:8080/v1/check?"

var client = &http.Client{Timeout: 500 * time.Millisecond}
var failOpen = os.Getenv("WEIR_FAIL") != "closed" // what to do if Weir is down

// check returns the status and the headers of Weir's response: 200 if the request is allowed. An error means that Weir is down.
func check(attributes url.Values) (int, http.Header, error) {
	response, err := client.Get(weir + attributes.Encode())
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body) // the connection is reused only if the body was read
	if err != nil {
		return 0, nil, err
	}
	// If a limit fails closed, the response is a 503 with "allowed":false: a decision, not an outage.
	if response.StatusCode >= 500 && !strings.Contains(string(body), `"allowed":false`) {
		return 0, nil, fmt.Errorf("weir: %s", response.Status)
	}
	return response.StatusCode, response.Header, nil
}

// limit calls next for requests that Weir allows.
func limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, _ := net.SplitHostPort(r.RemoteAddr)
		attributes := url.Values{"ip": {ip}, "method": {r.Method}, "path": {r.URL.Path}}
		if key := r.Header.Get("X-Api-Key"); key != "" {
			attributes.Set("api_key", key)
		}
		status, headers, err := check(attributes)
		if err != nil {
			log.Print(err)
			if !failOpen {
				http.Error(w, "try again later", http.StatusServiceUnavailable)
				return
			}
			status = http.StatusOK
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
			if value := headers.Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		if status != http.StatusOK { // also if Weir cannot decide the request
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	fmt.Println("listening at 127.0.0.1:3000")
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", limit(hello)))
}
