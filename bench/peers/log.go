// log.go: the same work as bench/table_log.c, as a typical Go program does it: a map of slices of times, behind one mutex.
//
//	log [--keys N] [--seconds S | --count N]
//
// The load is the same as in bench/log_load.h: keys, times and warm-up. Slices that grow leave garbage, so the garbage
// collector runs, as in any program.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

const (
	batch         = 1024
	limit         = 100
	offered       = 150
	window        = int64(time.Minute)
	warmUpMinutes = 2
	stepLeast     = 2000
)

type entry struct {
	times []int64
}

type slidingLog struct {
	mutex   sync.Mutex
	entries map[string]*entry
}

func (log *slidingLog) allow(key []byte, now int64) bool {
	log.mutex.Lock()
	of, found := log.entries[string(key)]
	if !found {
		of = &entry{}
		log.entries[string(key)] = of
	}
	expired := 0
	for expired < len(of.times) && of.times[expired] <= now-window {
		expired++
	}
	of.times = of.times[expired:] // copying the rest to the front makes no garbage, but is slower
	allowed := len(of.times) < limit
	if allowed {
		of.times = append(of.times, now)
	}
	log.mutex.Unlock()
	return allowed
}

// load is the position in the sequence of requests.
type load struct {
	order       *order
	keys        uint32
	n           int64
	start, step int64
}

// now is the time of the next request. It uses one bit of the clock.
func (load *load) now(clock int64) int64 {
	return load.start + load.n*load.step + clock&1
}

func (log *slidingLog) batch(load *load) (allowed int64) {
	key := newKey()
	for i := 0; i < batch; i++ {
		writeKey(&key, load.order.next(load.keys))
		if log.allow(key[:], load.now(time.Now().UnixNano())) {
			allowed++
		}
		load.n++
	}
	return allowed
}

// warmUp returns the bytes per event, including its share of the key, after garbage collection.
func (log *slidingLog) warmUp(load *load) float64 {
	debug.FreeOSMemory()
	before := residentBytes()
	minute := int64(load.keys) * offered
	key, events := newKey(), int64(0)
	for ; load.n < warmUpMinutes*minute; load.n++ {
		number := load.order.next(load.keys)
		if int64(number) >= load.n/offered {
			continue
		}
		writeKey(&key, number)
		if log.allow(key[:], load.now(0)) && load.n >= (warmUpMinutes-1)*minute {
			events++
		}
	}
	debug.FreeOSMemory()
	runtime.KeepAlive(log)
	return (residentBytes() - before) / float64(events)
}

func main() {
	work := work{each: batch, mixed: true, seconds: 0.5, threads: 1}
	keys := int64(100000)
	for i := 1; i < len(os.Args); i += 2 {
		if i+1 == len(os.Args) {
			fail("%s: missing value", os.Args[i])
		}
		if os.Args[i] == "--keys" {
			var err error
			keys, err = strconv.ParseInt(os.Args[i+1], 10, 32)
			if err != nil || keys < 1 || window/(keys*offered) < stepLeast {
				fail("--keys must be 1 to %d", window/offered/stepLeast)
			}
		} else if !work.option(os.Args[i], os.Args[i+1]) {
			fail("unknown option: %s", os.Args[i])
		}
	}
	if work.threads != 1 {
		fail("--threads must be 1: the requests have one order")
	}
	log := &slidingLog{entries: map[string]*entry{}}
	load := &load{order: orderOf(0, nil), keys: uint32(keys), start: time.Now().UnixNano(),
		step: window / (keys * offered)}
	more := map[string]interface{}{"bytes_per_event": log.warmUp(load)}
	work.decide = func(int) func() int64 {
		return func() int64 { return log.batch(load) }
	}
	work.measure(more)
}
