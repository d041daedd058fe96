//! `HOST:PORT`, as it is given and as it is sent in the Host header.

use std::{fmt, str::FromStr};

/// Where the job sends its documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress(String);

/// A text that is no `HOST:PORT`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not HOST:PORT, such as agent.mining.svc:8000 or [::1]:8000")]
pub struct NotAServer(String);

impl ServerAddress {
    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerAddress {
    type Err = NotAServer;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || NotAServer(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        if !port.parse::<u16>().is_ok_and(|port| port != 0) {
            return Err(bad());
        }
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let good = match literal {
            Some(literal) => literal.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !host.is_empty()
                    && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
            }
        };
        if good { Ok(Self(text.to_owned())) } else { Err(bad()) }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_host_and_port_are_a_server() {
        for good in ["agent:8000", "10.96.14.3:8000", "[::1]:8000", "a-b.example.net:1"] {
            assert_eq!(good.parse::<ServerAddress>().unwrap().to_string(), good);
        }
        for bad in ["", "agent", "agent:", ":8000", "agent:0", "agent:70000", "::1:8000"] {
            assert!(bad.parse::<ServerAddress>().is_err(), "{bad}");
        }
        for bad in ["http://agent:8000", "[::1:8000", "a b:8000", "[x]:8000", "agent:8000/v1"] {
            assert!(bad.parse::<ServerAddress>().is_err(), "{bad}");
        }
    }
}
