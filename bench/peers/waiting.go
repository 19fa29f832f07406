// waiting.go: the same work as bench/waiting.c, with x/time/rate's Wait: N departures at 1000 a second in one goroutine.
// Prints one line of JSON with the same names.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

const spacing = time.Millisecond

func processorSeconds() float64 {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return float64(use.Utime.Sec+use.Stime.Sec) + float64(use.Utime.Usec+use.Stime.Usec)/1e6
}

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil || n < 2 {
		fmt.Fprintln(os.Stderr, "usage: waiting N")
		os.Exit(2)
	}
	limiter := rate.NewLimiter(1000, 1)
	times := make([]time.Time, n)
	before := processorSeconds()
	for i := range times {
		if err := limiter.Wait(context.Background()); err != nil {
			panic(err)
		}
		times[i] = time.Now()
	}
	used := processorSeconds() - before
	errors := make([]float64, n-1)
	for i := range errors {
		off := times[i+1].Sub(times[i]) - spacing
		if off < 0 {
			off = -off
		}
		errors[i] = float64(off) / 1e3
	}
	sort.Float64s(errors)
	elapsed := times[n-1].Sub(times[0]).Seconds()
	fmt.Printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"worst_us\": %.1f, \"per_second\": %.2f, \"cpu_us_each\": %.2f}\n",
		errors[(n-1)/2], errors[(n-1)*99/100], errors[n-2], float64(n-1)/elapsed, used*1e6/float64(n))
}
