package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

@snippet@

func main() {
	answer, err := client.Get(os.Args[1])
	if err == nil {
		_, err = io.ReadAll(answer.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
