// core.go: the work of `core hot` in bench/core.c, done by Go's rate limiters.
//
//	core xtime|juju allow|used|deny [--seconds S | --count N] [--threads N]
//
// The options mean what they mean there, and the line of JSON is the same. Each goroutine keeps a thread of its own, on
// its own processor out of those that this process may use.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

const (
	batch          = 1000
	warmUpSeconds  = 0.05
	cpuWords       = 16 // 1024 processors
	threadTimeUsed = 1  // RUSAGE_THREAD
)

type cpuSet [cpuWords]uint64

type worker struct {
	decisions, allowed  int64
	seconds, cpuSeconds float64
	_                   [128]byte // so that threads do not share a line
}

func fail(format string, arguments ...interface{}) {
	fmt.Fprintf(os.Stderr, "core.go: "+format+"\n", arguments...)
	os.Exit(1)
}

// The same limits as in bench/core.c: refilled faster than anybody asks; never whole again and never empty; emptied.
func xtimeBatch(mode string) func() int64 {
	limiters := map[string]*rate.Limiter{
		"allow": rate.NewLimiter(rate.Limit(1e9), 1e9),
		"used":  rate.NewLimiter(rate.Limit(1), 1e12),
		"deny":  rate.NewLimiter(rate.Every(time.Hour), 1),
	}
	limiter := limiters[mode]
	if limiter == nil {
		fail("no such mode: %s", mode)
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
		fail("no such mode: %s", mode)
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

func usableCPUs() (cpus []int) {
	var set cpuSet
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		fail("sched_getaffinity: %v", errno)
	}
	for cpu := 0; cpu < cpuWords*64; cpu++ {
		if set[cpu/64]>>(cpu%64)&1 == 1 {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func pin(cpu int) {
	var set cpuSet
	set[cpu/64] = 1 << (cpu % 64)
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		fail("processor %d: %v", cpu, errno)
	}
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(threadTimeUsed, &usage); err != nil {
		fail("getrusage: %v", err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func (worker *worker) workFor(decide func() int64, seconds float64, count int64) {
	cpuStart, start := cpuSeconds(), time.Now()
	worker.decisions, worker.allowed = 0, 0
	for {
		worker.allowed += decide()
		worker.decisions += batch
		worker.seconds = time.Since(start).Seconds()
		if count > 0 && worker.decisions >= count || count == 0 && worker.seconds >= seconds {
			break
		}
	}
	worker.cpuSeconds = cpuSeconds() - cpuStart
}

func measure(decide func() int64, threads int, seconds float64, count int64) []worker {
	cpus := usableCPUs()
	if len(cpus) < threads {
		fail("more threads than processors that this process may use")
	}
	runtime.GOMAXPROCS(threads)
	workers := make([]worker, threads)
	var ready, done sync.WaitGroup
	ready.Add(threads)
	done.Add(threads)
	for i := range workers {
		go func(i int) {
			runtime.LockOSThread()
			pin(cpus[i])
			if count == 0 {
				workers[i].workFor(decide, warmUpSeconds, 0)
			}
			ready.Done()
			ready.Wait()
			workers[i].workFor(decide, seconds, count)
			done.Done()
		}(i)
	}
	done.Wait()
	return workers
}

func printResult(workers []worker, mode string) {
	var decisions, allowed int64
	perSecond, slowest, busy := 0.0, math.Inf(1), 1.0
	for _, worker := range workers {
		decisions += worker.decisions
		allowed += worker.allowed
		perSecond += float64(worker.decisions) / worker.seconds
		slowest = math.Min(slowest, float64(worker.decisions)/worker.seconds)
		if share := worker.cpuSeconds / worker.seconds; share < busy {
			busy = share
		}
	}
	if (mode == "deny" && allowed != 0) || (mode != "deny" && allowed != decisions) {
		fail("%s: %d of %d decisions were allowed", mode, allowed, decisions)
	}
	line, err := json.Marshal(map[string]interface{}{
		"threads": len(workers), "decisions": decisions, "allowed": allowed, "denied": decisions - allowed,
		"ns": 1e9 * float64(len(workers)) / perSecond, "per_second": perSecond, "busy": busy,
		"least_share": slowest / perSecond,
	})
	if err != nil {
		fail("%v", err)
	}
	fmt.Println(string(line))
}

func main() {
	batches := map[string]func(string) func() int64{"xtime": xtimeBatch, "juju": jujuBatch}
	seconds, count, threads := 0.5, int64(0), 1
	if len(os.Args) < 3 || batches[os.Args[1]] == nil {
		fail("usage: core xtime|juju allow|used|deny [--seconds S | --count N] [--threads N]")
	}
	for i := 3; i+1 < len(os.Args); i += 2 {
		var err error
		switch os.Args[i] {
		case "--seconds":
			seconds, err = strconv.ParseFloat(os.Args[i+1], 64)
		case "--count":
			count, err = strconv.ParseInt(os.Args[i+1], 10, 64)
		case "--threads":
			threads, err = strconv.Atoi(os.Args[i+1])
		default:
			fail("no such option: %s", os.Args[i])
		}
		if err != nil {
			fail("%v", err)
		}
	}
	printResult(measure(batches[os.Args[1]](os.Args[2]), threads, seconds, count), os.Args[2])
}
