client := redis.NewClient(&redis.Options{
	Addr: "redis.example.com:6379",
	Dialer: (&net.Dialer{
		Timeout: 5 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Interval: @interval@ * time.Second,
			Count:    @count@,
			Idle:     @idle@ * time.Second,
		},
	}).DialContext,
})
