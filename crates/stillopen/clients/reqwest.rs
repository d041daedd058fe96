use std::time::Duration;

fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .tcp_keepalive_interval(Duration::from_secs(@interval@))
        .tcp_keepalive_retries(@count@)
        .tcp_keepalive(Duration::from_secs(@idle@))
        .tcp_user_timeout(Duration::from_secs(@dead_peer@)) // Linux only
        .timeout(Duration::from_secs(3600))
        .build()
}
