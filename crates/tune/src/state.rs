//! The state file of a campaign: a line with the title, a line for each parameter of the jobs, a
//! line of settings, and a line for each measured round, each with a check sum. The state of the
//! campaign follows from them ([`crate::campaign`]).
//!
//! An incomplete last line was interrupted; it is dropped, and the round measured again. Any other
//! damage is an error with its position.

use crate::campaign::{Answer, Campaign, CampaignSettings};
use crate::comparison::MeasuringRound;
use oxmpi_plan::Collective;
use std::fmt::Write as _;

const TITLE: &str = "state of oxmpi tune, version 1";

/// Why a campaign cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {text}")]
pub struct StateError {
    pub file: String,
    /// From 1.
    pub line: usize,
    pub text: String,
}

/// A parsed state file.
#[derive(Clone, Debug)]
pub struct Resumed {
    pub settings: CampaignSettings,
    pub campaign: Campaign,
    pub answers: usize,
    /// The length of the file without an incomplete last line, in bytes.
    pub good_bytes: u64,
}

/// The first lines of a file.
pub fn head(settings: &CampaignSettings) -> String {
    let list = |words: Vec<String>| words.join(",");
    let parameters = settings.mca.iter().map(|(name, value)| line(&format!("mca {name} {value}")));
    let head = line(TITLE) + &parameters.collect::<String>();
    let settings = format!(
        "settings collectives={} ranks={} sizes={} minutes={}",
        list(settings.collectives.iter().map(|c| c.name().to_string()).collect()),
        list(settings.ranks.iter().map(u32::to_string).collect()),
        list(settings.sizes.iter().map(usize::to_string).collect()),
        settings.minutes,
    );
    head + &line(&settings)
}

/// The line of a round.
pub fn answered(round: &MeasuringRound, answer: &Answer) -> String {
    let mut text = format!(
        "answer {} {} {} {}",
        round.cell.collective, round.cell.bytes, round.cell.ranks, answer.all_ns
    );
    for ((variant, calls), time) in round.runs.iter().zip(&answer.times_ns) {
        let _ = write!(text, " {}:{calls}={time}", variant.word());
    }
    line(&text)
}

fn line(text: &str) -> String {
    format!("{text} #{:08x}\n", check(text))
}

/// A check sum that detects edited lines (FNV-1a).
fn check(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Parses a state file.
pub fn resume(file: &str, bytes: &[u8]) -> Result<Resumed, StateError> {
    let error = |line: usize, text: String| StateError { file: file.to_string(), line, text };
    // Bytes that are no UTF-8 fail the check sum.
    let text = String::from_utf8_lossy(bytes);
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut lines = whole.lines().zip(1..).map(|(text, number)| match text.rsplit_once(" #") {
        Some((text, sum)) if sum == format!("{:08x}", check(text)) => Ok((text, number)),
        _ => Err(error(number, "the line is damaged: its check sum does not fit".to_string())),
    });
    let title = lines
        .next()
        .ok_or_else(|| error(1, "this is no state of oxmpi tune: it is empty".to_string()))?;
    match title {
        Ok((TITLE, _)) => {}
        _ => return Err(error(1, format!("this is no state of oxmpi tune: expected '{TITLE}'"))),
    }
    let mut mca = Vec::new();
    let (settings, number) = loop {
        let missing = || error(mca.len() + 2, "the settings are missing".to_string());
        let (text, number) = lines.next().ok_or_else(missing)??;
        match text.strip_prefix("mca ").and_then(|parameter| parameter.split_once(' ')) {
            Some((name, value)) => mca.push((name.to_string(), value.to_string())),
            None => break (text, number),
        }
    };
    let settings =
        CampaignSettings { mca, ..parse_settings(settings).map_err(|text| error(number, text))? };
    let mut campaign = Campaign::new(&settings);
    let mut answers = 0;
    for entry in lines {
        let (text, number) = entry?;
        let Some(round) = campaign.next_round() else {
            return Err(error(
                number,
                "there is an answer after the end of the campaign".to_string(),
            ));
        };
        let strange = || {
            let text = "the answer does not fit the next measurement: the file is of another version, or was edited";
            error(number, text.to_string())
        };
        let answer = parse_answer(&round, text).ok_or_else(strange)?;
        if !campaign.take(&answer) {
            return Err(strange());
        }
        answers += 1;
    }
    Ok(Resumed { settings, campaign, answers, good_bytes: whole.len() as u64 })
}

fn parse_settings(text: &str) -> Result<CampaignSettings, String> {
    let wrong = || format!("expected the settings, found '{text}'");
    let mut words = text.strip_prefix("settings ").ok_or_else(wrong)?.split(' ');
    let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let mut read = || -> Option<CampaignSettings> {
        let collective = |name: &str| Collective::ALL.into_iter().find(|c| c.name() == name);
        Some(CampaignSettings {
            collectives: value("collectives")?.split(',').map(collective).collect::<Option<_>>()?,
            ranks: value("ranks")?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
            sizes: value("sizes")?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
            minutes: value("minutes")?.parse().ok()?,
            mca: Vec::new(),
        })
    };
    read().ok_or_else(wrong)
}

fn parse_answer(round: &MeasuringRound, text: &str) -> Option<Answer> {
    let cell = round.cell;
    let head = format!("answer {} {} {} ", cell.collective, cell.bytes, cell.ranks);
    let mut words = text.strip_prefix(&head)?.split(' ');
    let all_ns = time(words.next()?)?;
    let mut times_ns = Vec::new();
    for (variant, calls) in &round.runs {
        let run = format!("{}:{calls}=", variant.word());
        times_ns.push(time(words.next()?.strip_prefix(&run)?)?);
    }
    words.next().is_none().then_some(Answer { times_ns, all_ns })
}

fn time(text: &str) -> Option<f64> {
    text.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::{answer, settings};
    use proptest::prelude::*;

    fn file() -> String {
        let mut text = head(&settings());
        let mut campaign = Campaign::new(&settings());
        while let Some(round) = campaign.next_round() {
            let answer = answer(&round);
            text += &answered(&round, &answer);
            assert!(campaign.take(&answer));
        }
        text
    }

    #[test]
    fn a_campaign_resumes_from_any_cut_of_its_file() {
        let text = file();
        let whole = resume("f", text.as_bytes()).unwrap();
        assert_eq!((whole.settings.clone(), whole.campaign.next_round()), (settings(), None));
        let first = head(&settings()).len();
        for cut in first..text.len() {
            let mut resumed = resume("f", &text.as_bytes()[..cut]).unwrap();
            assert!(
                resumed.good_bytes as usize <= cut
                    && text.as_bytes()[resumed.good_bytes as usize - 1] == b'\n'
            );
            while let Some(round) = resumed.campaign.next_round() {
                assert!(resumed.campaign.take(&answer(&round)));
            }
            assert_eq!(resumed.campaign.outcomes(), whole.campaign.outcomes(), "cut at {cut}");
        }
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let text = file();
        let error = |text: &str| resume("f", text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(""), "f:1: this is no state of oxmpi tune: it is empty");
        assert!(
            error("rule-file-version-2\n")
                .starts_with("f:1: this is no state of oxmpi tune: expected '")
        );
        assert_eq!(error(&line(TITLE)), "f:2: the settings are missing");
        assert_eq!(error(&(line(TITLE) + &line("mca rpi tcp"))), "f:3: the settings are missing");
        assert!(
            error(&(line(TITLE) + &line("settings x"))).starts_with("f:2: expected the settings")
        );
        let lines: Vec<&str> = text.lines().collect();
        let without = |n: usize| {
            let kept = lines
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != n)
                .map(|(_, line)| format!("{line}\n"));
            kept.collect::<String>()
        };
        assert!(
            error(&without(4)).starts_with("f:5: the answer does not fit the next measurement")
        );
        assert_eq!(
            error(&(text.clone() + &line("answer x"))).split(": ").nth(1),
            Some("there is an answer after the end of the campaign")
        );
        let edited = text.replacen("=1008", "=1009", 1);
        assert_ne!(edited, text);
        assert!(error(&edited).contains("the line is damaged"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_changed_byte_is_detected(at in 0..4000_usize, flip in 1..=255_u8) {
            let mut bytes = file().into_bytes();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            // A changed last byte makes the last line incomplete, which is no error.
            prop_assert!(at + 1 == bytes.len() || resume("f", &bytes).is_err());
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = resume("f", &bytes);
        }
    }
}
