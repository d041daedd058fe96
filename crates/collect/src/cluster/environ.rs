//! `/proc/PID/environ` → the Services that the kubelet told the process of. Pure.

use std::{collections::BTreeMap, net::IpAddr};

const SUFFIX: &[u8] = b"_SERVICE_HOST";

/// Each Service's address with the name of its variable: `AGENT_SERVICE_HOST=10.96.14.3`.
///
/// Of the environment nothing else is looked at or kept.
pub(super) fn services(environ: &[u8], into: &mut BTreeMap<IpAddr, String>) {
    for variable in environ.split(|&byte| byte == 0) {
        let Some(equals) = variable.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (&variable[..equals], &variable[equals + 1..]);
        if name.len() <= SUFFIX.len() || !name.ends_with(SUFFIX) {
            continue;
        }
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let address = text(value).and_then(|value| value.parse::<IpAddr>().ok());
        if let (Some(name), Some(address)) = (text(name), address)
            && !address.is_loopback()
            && !address.is_unspecified()
        {
            into.entry(address.to_canonical()).or_insert_with(|| name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_service_hosts_count() {
        let environ = b"HOME=/root\0AGENT_SERVICE_HOST=10.96.14.3\0AGENT_SERVICE_PORT=8000\0\
            SIX_SERVICE_HOST=fd00::1\0DB_SERVICE_HOST=db.example.com\0_SERVICE_HOST=10.0.0.1\0\
            DEV_SERVICE_HOST=127.0.0.1\0X_SERVICE_HOST=\0X_SERVICE_HOST_NAME=10.0.0.9\0\xff_SERVICE_HOST=10.0.0.8\0\
            NOTHING\0=10.0.0.7";
        let mut found = BTreeMap::new();
        services(environ, &mut found);
        let found: Vec<_> = found.iter().map(|(a, n)| (a.to_string(), n.as_str())).collect();
        assert_eq!(
            found,
            [("10.96.14.3".into(), "AGENT_SERVICE_HOST"), ("fd00::1".into(), "SIX_SERVICE_HOST")]
        );
    }
}
