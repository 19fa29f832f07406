// workers.go: bench/workers.c for the peers: goroutines that decide for a while, and the same line of JSON.
//
// The caller restricts the process to as many processors as it has goroutines. Goroutines are not locked to threads: the
// kernel would have to wake a thread after each wait for a mutex, and two that share a mutex would be up to 40 % slower.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const warmUpSeconds = 0.05

// See struct work in bench/workers.h.
type work struct {
	decide  func(thread int) func() int64 // returns the batch function of a thread: it decides `each` times and returns how many were allowed
	each    int64
	allowed bool
	mixed   bool
	seconds float64
	count   int64
	threads int
}

type worker struct {
	decisions, allowed int64
	seconds            float64
	_                  [128]byte // padding: threads do not share a cache line
}

func fail(format string, arguments ...interface{}) {
	fmt.Fprintf(os.Stderr, filepath.Base(os.Args[0])+": "+format+"\n", arguments...)
	os.Exit(1)
}

func (worker *worker) workFor(decide func() int64, each int64, seconds float64, count int64) {
	start := time.Now()
	worker.decisions, worker.allowed = 0, 0
	for {
		worker.allowed += decide()
		worker.decisions += each
		worker.seconds = time.Since(start).Seconds()
		if count > 0 && worker.decisions >= count || count == 0 && worker.seconds >= seconds {
			break
		}
	}
}

// cpuSeconds returns the CPU time of all threads.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail("getrusage: %v", err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// run returns the workers, and the share of their processors that they used.
func (work *work) run() ([]worker, float64) {
	if runtime.NumCPU() < work.threads {
		fail("more threads than available processors")
	}
	runtime.GOMAXPROCS(work.threads)
	workers := make([]worker, work.threads)
	var ready, done sync.WaitGroup
	ready.Add(work.threads)
	done.Add(work.threads)
	for i := range workers {
		go func(i int) {
			decide := work.decide(i)
			if work.count == 0 {
				workers[i].workFor(decide, work.each, warmUpSeconds, 0)
			}
			ready.Done()
			ready.Wait()
			workers[i].workFor(decide, work.each, work.seconds, work.count)
			done.Done()
		}(i)
	}
	ready.Wait()
	cpuStart, start := cpuSeconds(), time.Now()
	done.Wait()
	return workers, (cpuSeconds() - cpuStart) / time.Since(start).Seconds() / float64(work.threads)
}

// measure prints the line of JSON, with additional values.
func (work *work) measure(more map[string]interface{}) {
	var decisions, allowed int64
	perSecond, slowest := 0.0, math.Inf(1)
	workers, busy := work.run()
	for _, worker := range workers {
		decisions += worker.decisions
		allowed += worker.allowed
		perSecond += float64(worker.decisions) / worker.seconds
		slowest = math.Min(slowest, float64(worker.decisions)/worker.seconds)
	}
	if !work.mixed && (work.allowed && allowed != decisions || !work.allowed && allowed != 0) {
		fail("%d of %d decisions were allowed", allowed, decisions)
	}
	result := map[string]interface{}{
		"threads": len(workers), "decisions": decisions, "allowed": allowed, "denied": decisions - allowed,
		"ns": 1e9 * float64(len(workers)) / perSecond, "per_second": perSecond, "busy": busy,
		"least_share": slowest / perSecond,
	}
	for name, value := range more {
		result[name] = value
	}
	line, err := json.Marshal(result)
	if err != nil {
		fail("%v", err)
	}
	fmt.Println(string(line))
}

// option reads --seconds, --count or --threads. It returns false for any other name.
func (work *work) option(name, value string) bool {
	var err error
	switch name {
	case "--seconds":
		work.seconds, err = strconv.ParseFloat(value, 64)
	case "--count":
		work.count, err = strconv.ParseInt(value, 10, 64)
	case "--threads":
		work.threads, err = strconv.Atoi(value)
	default:
		return false
	}
	if err != nil {
		fail("%v", err)
	}
	return true
}
