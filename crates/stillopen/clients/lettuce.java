SocketOptions socketOptions = SocketOptions.builder()
        .keepAlive(SocketOptions.KeepAliveOptions.builder()
                .interval(Duration.ofSeconds(@interval@))
                .count(@count@)
                .enable()
                .idle(Duration.ofSeconds(@idle@))
                .build())
        .build();
client.setOptions(ClientOptions.builder().socketOptions(socketOptions).build());
