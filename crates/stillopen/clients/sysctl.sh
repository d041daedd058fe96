sysctl -w net.ipv4.tcp_keepalive_intvl=@interval@ \
          net.ipv4.tcp_keepalive_probes=@count@ \
          net.ipv4.tcp_keepalive_time=@idle@
