// core.go: the same work as `core hot` in bench/core.c, with Go's rate limiters.
//
//	core xtime|juju allow|used|deny [--seconds S | --count N] [--threads N]
//
// The options and the line of JSON are the same as there.
package main

import (
	"os"
	"time"

	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

const batch = 1000

// The same limits as in bench/core.c: refilled faster than requests come; never full again and never empty; empty.
func xtimeBatch(mode string) func() int64 {
	limiters := map[string]*rate.Limiter{
		"allow": rate.NewLimiter(rate.Limit(1e9), 1e9),
		"used":  rate.NewLimiter(rate.Limit(1), 1e12),
		"deny":  rate.NewLimiter(rate.Every(time.Hour), 1),
	}
	limiter := limiters[mode]
	if limiter == nil {
		fail("unknown mode: %s", mode)
	}
	limiter.Allow()
	return func() (allowed int64) {
		for i := 0; i < batch; i++ {
			if limiter.Allow() {
				allowed++
			}
		}
		return allowed
	}
}

func jujuBatch(mode string) func() int64 {
	buckets := map[string]*ratelimit.Bucket{
		"allow": ratelimit.NewBucketWithRate(1e9, 1e9),
		"used":  ratelimit.NewBucketWithRate(1, 1e12),
		"deny":  ratelimit.NewBucket(time.Hour, 1),
	}
	bucket := buckets[mode]
	if bucket == nil {
		fail("unknown mode: %s", mode)
	}
	bucket.TakeAvailable(1)
	return func() (allowed int64) {
		for i := 0; i < batch; i++ {
			if bucket.TakeAvailable(1) == 1 {
				allowed++
			}
		}
		return allowed
	}
}

func main() {
	batches := map[string]func(string) func() int64{"xtime": xtimeBatch, "juju": jujuBatch}
	if len(os.Args) < 3 || len(os.Args)%2 == 0 || batches[os.Args[1]] == nil {
		fail("usage: core xtime|juju allow|used|deny [--seconds S | --count N] [--threads N]")
	}
	decide := batches[os.Args[1]](os.Args[2])
	work := work{
		decide: func(thread int) func() int64 { return decide },
		each:   batch, allowed: os.Args[2] != "deny", seconds: 0.5, threads: 1,
	}
	for i := 3; i < len(os.Args); i += 2 {
		if !work.option(os.Args[i], os.Args[i+1]) {
			fail("unknown option: %s", os.Args[i])
		}
	}
	work.measure(nil)
}
