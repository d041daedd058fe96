var dialer = &net.Dialer{
	Timeout: 30 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{
		Enable:   true,
		Interval: @interval@ * time.Second,
		Count:    @count@,
		Idle:     @idle@ * time.Second,
	},
}

var client = &http.Client{
	Timeout: time.Hour,
	Transport: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       dialer.DialContext,
		ForceAttemptHTTP2: true,
	},
}
