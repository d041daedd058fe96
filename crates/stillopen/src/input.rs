//! Values of the command line and of stillopen.toml: each error says what would be right.

use std::{fs::File, io::Read as _, net::IpAddr, path::Path, str::FromStr, time::Duration};

use anyhow::{Result, anyhow, bail};
use ipnet::{IpNet, Ipv4Net};
use jiff::SignedDuration;
use stillopen_model::{Catalogue, Evidence, EvidenceSource, IdleLimit, Selector};

/// The longest idle limit that makes sense: a year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// How much of a file shows what it is.
const HEAD: u64 = 4096;
/// Larger than a snapshot of a million connections, with room.
const LARGEST: u64 = 4 << 30;

/// Larger than any text that a person writes.
pub(crate) const LARGEST_TEXT: u64 = 16 << 20;

/// A value of `--limit`.
#[derive(Debug, Clone)]
pub struct LimitArg {
    /// As it was given.
    pub text: String,
    /// What it means.
    pub limit: IdleLimit,
}

/// Reads `15m`, `900s`, `1h`, `1h30m`, `5d`.
///
/// # Errors
/// Anything else, zero, and more than a year.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    match days_and_rest(text) {
        Some(duration) if !duration.is_zero() && duration <= LONGEST => Ok(duration),
        Some(_) => bail!("{text:?} is not a time of more than 0s and at most a year (365d)"),
        None => bail!("{text:?} is not a duration such as 900s, 15m, 1h30m or 5d"),
    }
}

/// Reads `1%`, `0.5%`: a share from 0 to 1.
///
/// # Errors
/// Anything else.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn share(text: &str) -> Result<f64> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
        Some(percent) => Ok(percent / 100.0),
        None => bail!("{text:?} is not a share such as 1% or 0.5%"),
    }
}

/// The library has no days in an exact duration: a calendar's day may have 23 hours. A limit's has 24.
fn days_and_rest(text: &str) -> Option<Duration> {
    let (days, rest) = match text.split_once('d') {
        Some((days, rest)) if days.bytes().all(|b| b.is_ascii_digit()) => {
            (days.parse().ok()?, rest)
        }
        _ => (0_u64, text),
    };
    let rest = match rest {
        "" if days > 0 => Duration::ZERO,
        rest => SignedDuration::from_str(rest).ok().and_then(|d| Duration::try_from(d).ok())?,
    };
    Duration::from_secs(days.checked_mul(86_400)?).checked_add(rest)
}

/// Reads `10.0.0.0/8`, `2001:db8::/32`, or one address. IPv4-mapped ones are the IPv4 ones that packets carry.
///
/// # Errors
/// Anything else.
pub(crate) fn cidr(text: &str) -> Result<IpNet> {
    IpNet::from_str(text)
        .or_else(|_| IpAddr::from_str(text).map(IpNet::from))
        .map(|net| unmapped(net.trunc()))
        .map_err(|_| anyhow!("{text:?} is not a network such as 10.0.0.0/8 or 2001:db8::/32"))
}

/// Reads a network with its length: one address may be a slip.
///
/// # Errors
/// Anything else.
pub(crate) fn network(text: &str) -> Result<IpNet> {
    if !text.contains('/') {
        bail!(
            "{text:?} has no prefix length: a network is 10.96.0.0/12, one address 10.96.14.3/32"
        );
    }
    cidr(text)
}

fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let mapped = v6.network().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    mapped.and_then(|(ip, length)| Ipv4Net::new(ip, length).ok()).map_or(net, IpNet::V4)
}

/// Reads a file that should hold one JSON object, and stops early where it does not: a device has no end.
///
/// # Errors
/// It can't be read, does not start as an object, or is larger than any snapshot.
pub(crate) fn read_snapshot_file(path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(HEAD).read_to_end(&mut bytes)?;
    match bytes.trim_ascii_start().first() {
        Some(b'{') => {}
        Some(_) => bail!("not a snapshot: it is not a JSON object"),
        None => bail!("not a snapshot: it is empty"),
    }
    file.take(LARGEST - HEAD).read_to_end(&mut bytes)?;
    if bytes.len() as u64 >= LARGEST {
        bail!("not a snapshot: it is larger than {LARGEST} bytes");
    }
    Ok(bytes)
}

/// Reads a text file that a person wrote: a scenario, a configuration.
///
/// # Errors
/// It can't be read, is not UTF-8, or is larger than any such file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LARGEST_TEXT).read_to_string(&mut text)?;
    if text.len() as u64 == LARGEST_TEXT {
        bail!("it is larger than {LARGEST_TEXT} bytes");
    }
    Ok(text)
}

/// A word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Reads `350s`, `aws-nat-gateway`, either with `@CIDR`.
///
/// # Errors
/// Neither a duration nor an idle timeout of the catalogue; the nearest ids are named.
pub(crate) fn limit_arg(text: &str) -> Result<LimitArg> {
    let (what, peers) = match text.split_once('@') {
        Some((what, net)) => (what, vec![cidr(net)?]),
        None => (text, Vec::new()),
    };
    let selector = Selector { peers, ..Selector::default() };
    let starts_as_number = what.starts_with(|c: char| c.is_ascii_digit());
    let limit = if starts_as_number {
        let evidence = Evidence::new(EvidenceSource::User, format!("--limit {text}"));
        let component = "given on the command line".to_owned();
        IdleLimit::new(format!("user-{what}"), component, duration(what)?, evidence)
    } else {
        catalogue_limit(what)?
    };
    Ok(LimitArg { text: text.to_owned(), limit: IdleLimit { selector, ..limit } })
}

fn catalogue_limit(id: &str) -> Result<IdleLimit> {
    let catalogue = Catalogue::builtin();
    let Some(row) = catalogue.find(id) else {
        let near = catalogue.closest(id);
        let hint = match near.as_slice() {
            [] => "stillopen limits --catalogue lists them".to_owned(),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        bail!("{id:?} is neither a duration such as 350s nor an id of the catalogue; {hint}");
    };
    // clap shows an error without its causes.
    row.to_limit().map_err(|error| anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_mapped_network_is_the_ipv4_one() {
        for (text, net) in [
            ("::ffff:10.2.0.0/112", "10.2.0.0/16"),
            ("::ffff:10.2.0.2", "10.2.0.2/32"),
            ("::/0", "::/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
        ] {
            assert_eq!(cidr(text).unwrap().to_string(), net);
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, seconds) in
            [("900s", 900), ("15m", 900), ("1h30m", 5400), ("5d", 432_000), ("1d1h", 90_000)]
        {
            assert_eq!(duration(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        for bad in
            ["", "900", "0s", "-5s", "d", "5dd", "xd", "9999999999999999999d", "400d", "5 bananas"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_to_paste_is_quoted_for_the_shell() {
        for (word, shell) in
            [("900s@10.0.0.0/8", "900s@10.0.0.0/8"), ("a b", "'a b'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(word), shell);
        }
    }
}
