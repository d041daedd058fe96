//! The flags of kube-proxy (`--proxy-mode=ipvs`), which some clusters set instead of a file.

use super::Written;

/// What has kube-proxy's flags.
const PROGRAMS: [&str; 4] = ["kube-proxy", "hyperkube", "k3s", "rke2"];
/// What may stand between such a program and its flags.
const SUBCOMMANDS: [&str; 4] = ["kube-proxy", "proxy", "server", "agent"];

/// The words of the command lines in a text, from the program's first flag on. Prose that mentions flags is none:
/// among its flags are words that are no flag's value.
pub(super) fn command_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut line = Vec::new();
    for part in text.lines() {
        let goes_on = part.trim_end().ends_with('\\');
        line.extend(part.trim_end().trim_end_matches('\\').split_whitespace());
        if !goes_on {
            words.extend(arguments(&line).unwrap_or_default());
            line.clear();
        }
    }
    words.extend(arguments(&line).unwrap_or_default());
    words
}

/// The flags of one command line, and of a variable that holds some; `None`: it is neither.
fn arguments<'a>(line: &[&'a str]) -> Option<Vec<&'a str>> {
    let is_program = |word: &&str| {
        word.rsplit(['/', '=']).next().is_some_and(|name| PROGRAMS.contains(&unquoted(name)))
    };
    let is_flag = |word: &str| word.len() > 1 && word.starts_with('-');
    let mut rest = match line.iter().position(&is_program) {
        Some(program) => {
            let after = line[program + 1..].iter().copied();
            after.skip_while(|word| SUBCOMMANDS.contains(word)).collect()
        }
        None => line.to_vec(),
    };
    // `ARGS="--proxy-mode=ipvs`
    let first = rest.first_mut()?;
    if !is_flag(first)
        && let Some((_, value)) = first.split_once('=')
    {
        *first = value;
    }
    let ends = |word: &&str| {
        word.trim_start_matches(char::is_numeric).starts_with(['>', '<', '|', '&', ';'])
    };
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    rest.truncate(end);
    let rest: Vec<&str> = rest.into_iter().map(unquoted).collect();
    let are_flags = rest.iter().enumerate().all(|(at, word)| {
        let before = at.checked_sub(1).map(|at| rest[at]);
        is_flag(word) || before.is_some_and(|before| is_flag(before) && !before.contains('='))
    });
    (are_flags && Flags::read(rest.iter().copied()).any).then_some(rest)
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

/// What the flags say.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub written: Written,
    /// `--config`: the file that decides instead of them.
    pub config: Option<String>,
    /// Whether any flag of kube-proxy was there.
    pub any: bool,
}

impl Flags {
    /// Reads them off arguments, each `--name=value`, `--name value` or k3s's `name=value`.
    pub(super) fn read<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Self::default();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let bare = argument.trim_start_matches('-');
            let dashed = bare.len() < argument.len();
            match bare.split_once('=') {
                Some((name, value)) => flags.set(name, value),
                None if dashed => {
                    if let Some(value) = arguments.next_if(|next| !next.starts_with('-')) {
                        flags.set(bare, value);
                    }
                }
                None => {}
            }
        }
        flags
    }

    fn set(&mut self, name: &str, value: &str) {
        let value = unquoted(value);
        let text = || Some(value.to_owned());
        let Written { mode, tcp_timeout, tcp_fin_timeout, exclude_cidrs, .. } = &mut self.written;
        match name {
            "proxy-mode" => *mode = text(),
            "ipvs-tcp-timeout" => *tcp_timeout = text(),
            "ipvs-tcpfin-timeout" => *tcp_fin_timeout = text(),
            "ipvs-exclude-cidrs" => {
                exclude_cidrs.extend(value.split(',').map(|cidr| cidr.trim().to_owned()));
            }
            "conntrack-tcp-timeout-established" => self.written.conntrack_established = text(),
            "conntrack-tcp-timeout-close-wait" => self.written.conntrack_close_wait = text(),
            "config" => self.config = text(),
            // k3s and RKE2 hand these on.
            "kube-proxy-arg" => {
                let inner = Self::read([value]);
                if inner.any
                    && let Some((name, value)) = value.trim_start_matches('-').split_once('=')
                {
                    self.set(name, value);
                }
                return;
            }
            _ => return,
        }
        self.any = true;
    }
}
