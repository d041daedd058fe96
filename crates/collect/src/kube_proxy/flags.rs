//! The flags of kube-proxy (`--proxy-mode=ipvs`), which some clusters set instead of a file.

use super::Written;

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
        let value = value.trim_matches(['"', '\'']);
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
