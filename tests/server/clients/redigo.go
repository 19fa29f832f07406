// redigo.go: asks through redigo what clients_test.py says, line by line.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

func show(value interface{}, err error) string {
	if refusal, ok := err.(redis.Error); ok {
		return "-" + hex.EncodeToString([]byte(refusal))
	}
	if err != nil {
		return "!" + err.Error()
	}
	switch value := value.(type) {
	case redis.Error:
		return "-" + hex.EncodeToString([]byte(value))
	case int64:
		return ":" + strconv.FormatInt(value, 10)
	case nil:
		return "_"
	case string:
		return "$" + hex.EncodeToString([]byte(value))
	case []byte:
		return "$" + hex.EncodeToString(value)
	case []interface{}:
		shown := []string{"*" + strconv.Itoa(len(value))}
		for _, element := range value {
			shown = append(shown, show(element, nil))
		}
		return strings.Join(shown, " ")
	}
	return fmt.Sprintf("!%T", value)
}

func words(line string) (string, []interface{}) {
	var decoded []interface{}
	for _, word := range strings.Split(line, " ")[1:] {
		argument, err := hex.DecodeString(word)
		if err != nil {
			panic(err)
		}
		decoded = append(decoded, argument)
	}
	return string(decoded[0].([]byte)), decoded[1:]
}

func dial(where, name, password string) (redis.Conn, error) {
	options := []redis.DialOption{redis.DialClientName(name)}
	if user, secret, ok := strings.Cut(password, ":"); ok {
		options = append(options, redis.DialUsername(user), redis.DialPassword(secret))
	}
	if strings.Contains(where, "/") {
		return redis.Dial("unix", where, options...)
	}
	return redis.Dial("tcp", where, options...)
}

func callTogether(connection redis.Conn, lines *bufio.Scanner, count int) {
	for i := 0; i < count; i++ {
		lines.Scan()
		command, arguments := words(lines.Text())
		if err := connection.Send(command, arguments...); err != nil {
			panic(err)
		}
	}
	if err := connection.Flush(); err != nil {
		panic(err)
	}
	for i := 0; i < count; i++ {
		fmt.Println(show(connection.Receive()))
	}
}

func main() {
	where, name, password := os.Args[1], os.Args[2], ""
	if len(os.Args) > 3 {
		password = os.Args[3]
	}
	pool := redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) { return dial(where, name, password) }}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		connection := pool.Get()
		if line := lines.Text(); strings.HasPrefix(line, "pipeline ") {
			n, err := strconv.Atoi(line[len("pipeline "):])
			if err != nil {
				panic(err)
			}
			callTogether(connection, lines, n)
		} else {
			command, arguments := words(lines.Text())
			fmt.Println(show(connection.Do(command, arguments...)))
		}
		connection.Close()
	}
}
