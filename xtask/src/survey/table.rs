//! The data file's rows, and the table that `cargo xtask docs` makes of them.

use serde::{Deserialize, Serialize};

/// What was surveyed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Survey {
    pub(crate) kernel: String,
    pub(crate) idle_timeout_s: f64,
    pub(crate) answer_after_s: u32,
    pub(crate) patience_s: u32,
    pub(crate) clients: Vec<Row>,
}

/// One client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) client: String,
    pub(crate) version: String,
    /// Of which `stillopen advise --client` the setting is.
    pub(crate) advise: Option<String>,
    pub(crate) default: Outcome,
    pub(crate) patient: Option<Outcome>,
    pub(crate) setting: Option<Outcome>,
}

/// What came of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// From the client's start, on the guest's clock.
    pub(crate) after_s: u32,
    /// What it said last.
    pub(crate) saw: String,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// The answer came.
    Answer,
    /// It saw an error before the answer was due, or at the end of all its tries: its own timer.
    OwnTimer,
    /// It saw an error after that.
    Error,
    /// It was still waiting when it was ended.
    Waits,
}

/// A cell's text is no longer.
const LONGEST: usize = 90;

impl Outcome {
    /// `own_until_s`: an error before that is its own timer's.
    pub(crate) fn of(after_s: f64, status: Option<i32>, saw: &str, own_until_s: u32) -> Self {
        let due = f64::from(own_until_s);
        let ended = match status {
            Some(0) => Ended::Answer,
            None => Ended::Waits,
            Some(_) if after_s < due => Ended::OwnTimer,
            Some(_) => Ended::Error,
        };
        let saw = if ended == Ended::Answer || ended == Ended::Waits { "" } else { saw };
        let mut shown: String = saw.chars().take(LONGEST).collect();
        if shown.len() < saw.len() {
            shown.push('…');
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "seconds of a run, rounded"
        )]
        let after_s = after_s.round() as u32;
        Self { ended, after_s, saw: shown }
    }

    fn cell(&self) -> String {
        let Self { ended, after_s, saw } = self;
        let saw = saw.replace('|', "\\|").replace('`', "'");
        match ended {
            Ended::Answer => "**answer**".into(),
            Ended::Waits => format!("LOST: still waiting after {after_s} s"),
            Ended::OwnTimer => format!("its own timer, {after_s} s: `{saw}`"),
            Ended::Error => format!("LOST: `{saw}` after {after_s} s"),
        }
    }
}

impl Survey {
    /// As a part of docs/clients.md.
    pub(crate) fn markdown(&self) -> String {
        let Self { kernel, idle_timeout_s, answer_after_s, patience_s, clients } = self;
        let mut text = format!(
            "\n## Behind IPVS\n\n\
             <!-- Made from docs/clients-survey.json, which `cargo xtask survey` writes. -->\n\n\
             Each client asked once over plain HTTP, through `stillopen lab exec --driver vm`: behind the IPVS of Linux\n\
             {kernel} with its own {idle_timeout_s} s, where a server answers after {answer_after_s} s. \"As it \
             comes\" is without\nany setting; \"patient\" has only its own timer raised to 3600 s, where it has a \
             shorter one; the last column\nhas the setting of `stillopen advise --client NAME`, 60/30/3. Times \
             are the guest's, from the program's start, which\ntakes some seconds of them. A client that still \
             waited after {patience_s} s was ended: nothing would ever have\ntold it. The answer's body is none \
             that an SDK knows; what counts is that it came.\n\n\
             | client | version | as it comes | patient | as advised |\n|---|---|---|---|---|\n"
        );
        for row in clients {
            let cell = |outcome: &Option<Outcome>| {
                outcome.as_ref().map_or_else(|| "–".to_owned(), Outcome::cell)
            };
            let advised = match &row.advise {
                Some(id) => format!("`{id}`: {}", cell(&row.setting)),
                None => "it has no such setting: `stillopen run`".to_owned(),
            };
            let [default, patient] = [row.default.cell(), cell(&row.patient)];
            let cells = [&row.client, &row.version, &default, &patient, &advised];
            text.extend(cells.into_iter().flat_map(|cell| ["| ", cell, " "]));
            text.push_str("|\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_run_ended() {
        let of = |after, status, saw| Outcome::of(after, status, saw, 1000);
        for (outcome, ended, cell) in [
            (of(1003.2, Some(0), "noise"), Ended::Answer, "**answer**"),
            (of(3900.0, None, ""), Ended::Waits, "LOST: still waiting after 3900 s"),
            (of(7.4, Some(1), "ReadTimeout"), Ended::OwnTimer, "its own timer, 7 s: `ReadTimeout`"),
            (of(1001.0, Some(1), "E"), Ended::Error, "LOST: `E` after 1001 s"),
        ] {
            assert_eq!((outcome.ended, outcome.cell().as_str()), (ended, cell));
        }
    }
}
