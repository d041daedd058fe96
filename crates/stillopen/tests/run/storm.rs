//! Many threads, children and signals at once.

use crate::program::{AS_NOBODY, Ran, command, file};

#[test]
fn ten_thousand_sockets_of_fifty_threads_under_forks_and_signals() {
    let storm = file("storm");
    let (printed, report) = Ran::of(&mut command(&AS_NOBODY, &["--report"], &[&storm])).reported();
    // 50 threads with 200 sockets each, 60 children with 10; not one without, no failure, a thousand signals.
    assert_eq!(printed, "10600 0 0 1");
    assert_eq!(report, "10600 sockets");
}

#[test]
fn all_capabilities_dropped() {
    let storm = file("storm");
    let before = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"];
    let (printed, _) = Ran::of(&mut command(&before, &["--report"], &[&storm])).reported();
    assert_eq!(printed, "10600 0 0 1");
}
