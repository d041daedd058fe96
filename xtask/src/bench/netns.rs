//! `cargo xtask bench netns`: throughput and packets a second through the path of `lab exec`, against the kernel's
//! own DNAT by nftables between the same namespaces.
//!
//! One TCP connection of iperf3, each way of forwarding in turn. Packets are counted with offloads off, where each is
//! one segment: the path does the same work for one of 64 KiB.

use std::{ffi::OsStr, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::check::{Built, build};
use crate::{
    sh,
    tools::{self, IP, IPERF, NFT, UNSHARE},
};

/// The share of nftables' throughput that is the goal, with offloads on.
const GOAL: f64 = 0.5;
/// Bytes of a full segment on Ethernet with timestamps.
const SEGMENT: f64 = 1448.0;

/// `cargo xtask bench netns`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often to measure each; the best counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("bench netns makes namespaces with nftables in them: run it as root");
    }
    tools::require(&[IP, NFT, IPERF, UNSHARE])?;
    let Built { stillopen, .. } = build()?;
    let mut missed = false;
    for (offloads, what) in [(true, "offloads on"), (false, "offloads off")] {
        let mut best = [0.0_f64; 2];
        for _ in 0..args.rounds {
            let rates = [
                measured(&mut nftables(args.seconds, offloads))?,
                measured(&mut path(stillopen.as_os_str(), args.seconds, offloads))?,
            ];
            for (best, rate) in best.iter_mut().zip(rates) {
                *best = best.max(rate);
            }
        }
        let [nft, path] = best;
        let ratio = path / nft;
        for (name, rate) in [("nft DNAT", nft), ("lab exec", path)] {
            let bits = rate * 8.0 / 1e9;
            if offloads {
                println!("{what:<12}  {name}  {bits:>7.2} Gbit/s");
            } else {
                let packets = rate / SEGMENT;
                println!("{what:<12}  {name}  {bits:>7.2} Gbit/s  {packets:>9.0} packets/s");
            }
        }
        if offloads {
            let met = ratio >= GOAL;
            missed |= !met;
            let met = if met { "goal met" } else { "MISSED" };
            println!("{what:<12}  ratio     {ratio:>7.2}  at least {GOAL}: {met}");
        } else {
            println!("{what:<12}  ratio     {ratio:>7.2}");
        }
    }
    if missed {
        bail!("the goal is missed")
    }
    Ok(())
}

/// Bytes a second, as the receiver counts them.
fn measured(command: &mut Command) -> Result<f64> {
    let json = sh::output(command)?;
    let report: Value = serde_json::from_str(&json).context("iperf3 writes JSON")?;
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(rate.context("iperf3 has no result")? / 8.0)
}

fn client(address: &str, seconds: u32) -> String {
    format!("iperf3 -J -t {seconds} -c {address} -p 8000")
}

fn path(stillopen: &OsStr, seconds: u32, offloads: bool) -> Command {
    let mut command = Command::new(stillopen);
    command.args(["lab", "exec", "--server", "exec iperf3 -s -1 -p $PORT >/dev/null"]);
    if !offloads {
        // As good as none; but the ends send their segments one by one.
        command.args(["--loss", "0.000000001%"]);
    }
    command.args(["--", "sh", "-c", &client("${STILLOPEN_SERVER%:*}", seconds)]);
    command
}

/// The same three namespaces, with nftables in the middle. They live as long as the process.
fn nftables(seconds: u32, offloads: bool) -> Command {
    let segments = if offloads { "" } else { "gso_max_segs 1" };
    let script = format!(
        "mount -t tmpfs none /run
         for end in c s; do ip netns add $end; ip -n $end link set lo up; done
         ip link add c type veth peer name eth0 netns c
         ip link add s type veth peer name eth0 netns s
         ip address add 10.0.1.1/24 dev c; ip address add 10.0.2.1/24 dev s; ip link set c up; ip link set s up
         ip -n c address add 10.0.1.2/24 dev eth0; ip -n s address add 10.0.2.2/24 dev eth0
         for end in c s; do ip -n $end link set eth0 {segments} up; done
         ip -n c route add default via 10.0.1.1; ip -n s route add default via 10.0.2.1
         echo 1 > /proc/sys/net/ipv4/ip_forward
         nft 'table ip lab {{ chain to {{ type nat hook prerouting priority dstnat; \
              ip daddr 10.96.14.3 tcp dport 8000 dnat to 10.0.2.2:8000; }}; }}'
         ip netns exec s iperf3 -s -1 -D -p 8000
         until ip netns exec s ss -Hltn 'sport = 8000' | grep -q .; do :; done
         exec ip netns exec c {}",
        client("10.96.14.3", seconds)
    );
    let mut command = Command::new("unshare");
    // Its processes end with it.
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-ec", &script]);
    command
}
