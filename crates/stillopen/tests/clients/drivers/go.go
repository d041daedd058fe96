package main

import (
	"net"
	"net/http"
	"os"
	"time"
)

@snippet@

func main() {
	client.Get(os.Args[1])
}
