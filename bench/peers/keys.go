// keys.go: the keys of bench/keys.h and keys.c, in the same order, for the peers.
package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"os"
)

const (
	keyPrefix = 5
	keyLength = keyPrefix + 8
	keysMax   = 100000000
	keysDrawn = 1 << 22
	zipf      = 0.99
	seed      = 0x9e3779b97f4a7c15
)

func newKey() (key [keyLength]byte) {
	copy(key[:], "user:")
	return key
}

func writeKey(key *[keyLength]byte, number uint32) {
	fours := uint64(number/10000) | uint64(number%10000)<<32
	hundreds := (fours * 10486 >> 20) & 0x0000007f0000007f
	twos := hundreds | (fours-hundreds*100)<<16
	tens := (twos * 103 >> 10) & 0x000f000f000f000f
	binary.LittleEndian.PutUint64(key[keyPrefix:], (tens|(twos-tens*10)<<8)+0x3030303030303030)
}

func random(state *uint64) uint64 {
	*state ^= *state >> 12
	*state ^= *state << 25
	*state ^= *state >> 27
	return *state * 0x2545f4914f6cdd1d
}

func below(state *uint64, n uint32) uint32 {
	return uint32((random(state) >> 32) * uint64(n) >> 32)
}

type order struct {
	state uint64
	drawn []uint32
	at    int
	_     [128]byte
}

func (order *order) next(keys uint32) uint32 {
	if order.drawn != nil {
		order.at++
		return order.drawn[(order.at-1)%keysDrawn]
	}
	return below(&order.state, keys)
}

func orderOf(thread int, drawn []uint32) *order {
	order := &order{drawn: drawn}
	_, order.state = bits.Mul64(seed, uint64(2*thread+1))
	order.at = int(below(&order.state, keysDrawn))
	return order
}

func drawZipf(keys uint32) []uint32 {
	drawn := make([]uint32, keysDrawn)
	sum, reached := 0.0, 1.0
	state, rank := uint64(seed), uint64(0)
	for i := uint32(1); i <= keys; i++ {
		sum += math.Pow(float64(i), -zipf)
	}
	for i := range drawn {
		part := (float64(i) + float64(below(&state, 1<<20))/(1<<20)) / keysDrawn
		for reached < part*sum && rank+1 < uint64(keys) {
			rank++
			reached += math.Pow(float64(rank+1), -zipf)
		}
		drawn[i] = uint32(rank * 2654435761 % uint64(keys))
	}
	for i := uint32(keysDrawn - 1); i > 0; i-- {
		other := below(&state, i+1)
		drawn[i], drawn[other] = drawn[other], drawn[i]
	}
	return drawn
}

func residentBytes() float64 {
	var size, pages int64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &size, &pages)
	}
	if err != nil {
		fail("/proc/self/statm: %v", err)
	}
	return float64(pages) * float64(os.Getpagesize())
}
