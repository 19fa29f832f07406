// table.go: the same work as bench/table.c, as a typical Go program does it: a map of x/time/rate limiters, one for each user.
//
//	table mutex|sharded [--keys N] [--zipf] [--seconds S | --count N] [--threads N]
//
// mutex: one map behind one mutex. sharded: 256 maps, each behind its own mutex, chosen by Go's own hash. Both find or make
// the limiter under the lock, and call it after. The options, the keys, their order and the line of JSON are the same as in
// bench/table.c.
package main

import (
	"hash/maphash"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	batch  = 1024
	shards = 256
	burst  = 3000000
)

// A token refills in three minutes, as in bench/keys.h.
var every = rate.Every(3 * time.Minute)

// --- limiters --------------------------------------------------------------------------------------------------------

type perUser struct {
	mutex    sync.Mutex
	limiters map[string]*rate.Limiter
	_        [112]byte // padding: no two shards share a cache line, or a pair of lines
}

func (users *perUser) limiter(key []byte) *rate.Limiter {
	users.mutex.Lock()
	limiter, found := users.limiters[string(key)]
	if !found {
		limiter = rate.NewLimiter(every, burst)
		users.limiters[string(key)] = limiter
	}
	users.mutex.Unlock()
	return limiter
}

// contender decides in a loop of its own, so that a decision needs no interface call.
type contender interface {
	insert(key []byte)
	batch(order *order, keys uint32) (allowed int64)
}

type single struct{ users perUser }

func (single *single) insert(key []byte) {
	single.users.limiter(key).Allow()
}

func (single *single) batch(order *order, keys uint32) (allowed int64) {
	key := newKey()
	for i := 0; i < batch; i++ {
		writeKey(&key, order.next(keys))
		if single.users.limiter(key[:]).Allow() {
			allowed++
		}
	}
	return allowed
}

type sharded struct {
	secret maphash.Seed
	users  [shards]perUser
}

func (sharded *sharded) limiter(key []byte) *rate.Limiter {
	return sharded.users[maphash.Bytes(sharded.secret, key)%shards].limiter(key)
}

func (sharded *sharded) insert(key []byte) {
	sharded.limiter(key).Allow()
}

func (sharded *sharded) batch(order *order, keys uint32) (allowed int64) {
	key := newKey()
	for i := 0; i < batch; i++ {
		writeKey(&key, order.next(keys))
		if sharded.limiter(key[:]).Allow() {
			allowed++
		}
	}
	return allowed
}

func newContender(name string) contender {
	switch name {
	case "mutex":
		return &single{perUser{limiters: map[string]*rate.Limiter{}}}
	case "sharded":
		sharded := &sharded{secret: maphash.MakeSeed()}
		for i := range sharded.users {
			sharded.users[i].limiters = map[string]*rate.Limiter{}
		}
		return sharded
	}
	fail("unknown contender: %s", name)
	return nil
}

// --- the rest --------------------------------------------------------------------------------------------------------

// insertAll returns the bytes per key, after all garbage was given back to the system. Garbage collection is off from here
// on, because the measured code makes no garbage.
func insertAll(contender contender, keys uint32) float64 {
	debug.SetGCPercent(-1)
	debug.FreeOSMemory()
	before := residentBytes()
	key := newKey()
	for number := uint32(0); number < keys; number++ {
		writeKey(&key, number)
		contender.insert(key[:])
	}
	debug.FreeOSMemory()
	runtime.KeepAlive(contender)
	return (residentBytes() - before) / float64(keys)
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: table mutex|sharded [--keys N] [--zipf] [--seconds S | --count N] [--threads N]")
	}
	contender := newContender(os.Args[1])
	work := work{each: batch, allowed: true, seconds: 0.5, threads: 1}
	keys, isZipf := uint32(1000000), false
	for i := 2; i < len(os.Args); i++ {
		name := os.Args[i]
		if name == "--zipf" {
			isZipf = true
			continue
		}
		i++
		if i == len(os.Args) {
			fail("%s: missing value", name)
		}
		if name == "--keys" {
			number, err := strconv.ParseUint(os.Args[i], 10, 32)
			if err != nil || number < 1 || number > keysMax {
				fail("--keys must be 1 to %d", keysMax)
			}
			keys = uint32(number)
		} else if !work.option(name, os.Args[i]) {
			fail("unknown option: %s", name)
		}
	}
	more := map[string]interface{}{"bytes_per_key": insertAll(contender, keys)}
	var drawn []uint32
	if isZipf {
		drawn = drawZipf(keys)
	}
	work.decide = func(thread int) func() int64 {
		order := orderOf(thread, drawn)
		return func() int64 { return contender.batch(order, keys) }
	}
	work.measure(more)
}
