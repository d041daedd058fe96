//! `stillopen rescue` and `ask`, by an ordinary user, on a client that waits behind a path which forgets after 3 s.

use serde_json::Value;

use crate::{
    clients::FAMILIES,
    user::{PYTHON, Ran, Running, User},
};

/// What the command of `drivers/meanwhile.py` wrote, and what came of the request.
#[derive(Debug)]
struct Came {
    status: i32,
    report: Value,
    outcome: String,
    /// From the command's start to that.
    after_s: f64,
}

impl Came {
    fn of(ran: &Ran) -> Self {
        let mut lines = ran.stdout.lines();
        let mut next = || lines.next().unwrap_or_else(|| panic!("{ran:?}"));
        let (status, report) = next().split_once(' ').expect("status and report");
        Self {
            status: status.parse().expect("a status"),
            report: serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {ran:?}")),
            outcome: next().to_owned(),
            after_s: next().parse().expect("seconds"),
        }
    }

    /// Of the one connection.
    fn row(&self) -> &Value {
        match self.report["connections"].as_array().map(Vec::as_slice) {
            Some([row]) => row,
            _ => panic!("one connection: {self:#?}"),
        }
    }
}

/// Starts the client, which runs `stillopen` with these arguments and its process id so many seconds after it
/// has asked.
fn start(user: &User, name: &str, path: &[&str], after_s: &str, command: &[&str]) -> Running {
    let client = user.file("meanwhile.py", include_str!("drivers/meanwhile.py"));
    let stillopen = user.stillopen();
    let client = [PYTHON, &client, after_s, &stillopen];
    user.start(name, &[path, &["--idle-timeout", "3s", "--"], &client, command].concat())
}

#[test]
fn what_is_rescued_a_second_before_the_cut_has_its_answer() {
    let user = User::new();
    let command = ["rescue", "--limit", "3s", "--apply", "--json", "--pid"];
    let runs = FAMILIES.map(|family| {
        let path = [family, &["--answer-after", "6s"]].concat();
        start(&user, &format!("v{}", family.len()), &path, "2", &command)
    });
    for (family, run) in FAMILIES.iter().zip(runs) {
        let ran = run.ran();
        let came = Came::of(&ran);
        assert_eq!((came.status, &came.row()["done"]), (0, &true.into()), "{family:?} {came:#?}");
        assert_eq!(came.row()["verdict"], "at_risk", "{family:?} {came:#?}");
        assert_eq!(came.row()["predicted"], "safe", "{family:?} {came:#?}");
        assert_eq!(came.outcome, "HTTP/1.1 200 OK", "{family:?} {came:#?}");
        assert_eq!(ran.summary["answers_lost"], 0, "{family:?} {ran:?}");
    }
}

#[test]
fn a_wait_on_what_is_cut_ends_with_an_error_within_five_seconds() {
    let user = User::new();
    let command = ["rescue", "--limit", "3s", "--close-dead", "--apply", "--json", "--pid"];
    let profiles = ["ipvs", "firewall-drop"];
    let runs = FAMILIES.map(|family| {
        profiles.map(|profile| {
            let path = [family, &["--answer-after", "60s", "--profile", profile]].concat();
            start(&user, &format!("{profile}-{}", family.len()), &path, "4.5", &command)
        })
    });
    for (family, runs) in FAMILIES.iter().zip(runs) {
        for run in runs {
            let came = Came::of(&run.ran());
            assert_eq!(
                (came.status, &came.row()["done"]),
                (0, &true.into()),
                "{family:?} {came:#?}"
            );
            assert!(
                ["ECONNABORTED", "ECONNRESET", "ETIMEDOUT"].contains(&came.outcome.as_str()),
                "{family:?} {came:#?}"
            );
            assert!(came.after_s < 5.0, "{family:?} {came:#?}");
        }
    }
}

#[test]
fn asked_a_live_connection_answers_behind_each_kind_of_path() {
    asked(
        "1.5",
        [
            ("ipvs", "answers"),
            ("nat-reset", "answers"),
            ("firewall-drop", "answers"),
            ("conntrack", "answers"),
        ],
    );
}

#[test]
fn asked_a_forgotten_connection_does_as_its_path_does() {
    asked(
        "4.5",
        [
            ("ipvs", "reset"),
            ("nat-reset", "reset"),
            ("firewall-drop", "no_answer"),
            ("conntrack", "answers"),
        ],
    );
}

/// `answers`: of each profile, with conntrack's because a client's packet makes its entry anew.
#[track_caller]
fn asked(after_s: &str, answers: [(&str, &str); 4]) {
    let user = User::new();
    let command = ["ask", "--apply", "--json", "--pid"];
    let runs = answers.map(|(profile, _)| {
        let path = ["--answer-after", "12s", "--profile", profile];
        start(&user, profile, &path, after_s, &command)
    });
    for ((profile, answer), run) in answers.into_iter().zip(runs) {
        let came = Came::of(&run.ran());
        assert_eq!(came.row()["answer"], answer, "{profile} {came:#?}");
        assert_eq!(came.status, i32::from(answer != "answers"), "{profile} {came:#?}");
    }
}
