//! The app schema of a set: which ranks were on which hosts, as a file for `mpirun --app`. The user
//! may edit it to restart the job elsewhere (`oxmpi restart --app FILE SET`).

use oxmpi_rt_proto::held::HeldProgram;

/// The schema of a job with these programs, and the host of each rank: a line for consecutive ranks
/// of one program on one host. `None`: an argument has a line end, for which such files have no
/// form.
pub(super) fn schema(programs: &[HeldProgram], hosts: &[&str]) -> Option<String> {
    let mut text =
        String::from("# oxmpi restart --app FILE SET: where the ranks of the set go on\n");
    let mut ranks = hosts.iter().copied().peekable();
    for program in programs {
        if program.words.iter().any(|word| word.contains(['\n', '\r'])) {
            return None;
        }
        let words: Vec<String> = program.words.iter().map(|word| quoted(word)).collect();
        let mut left = program.ranks;
        while left > 0 {
            let host = ranks.next()?;
            left -= 1;
            let mut count = 1;
            while left > 0 && ranks.next_if_eq(&host).is_some() {
                (left, count) = (left - 1, count + 1);
            }
            text += &format!("-n {count} -H {}:{count} {}\n", quoted(host), words.join(" "));
        }
    }
    Some(text)
}

/// A word with the quotes of such files, and of shells.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_a_line_for_ranks_of_one_host_that_run_the_same() {
        let hosts = ["nodea", "nodea", "nodeb", "nodea", "nodeb", "nodeb"];
        let program = |ranks, words: &[&str]| HeldProgram {
            ranks,
            words: words.iter().map(|word| word.to_string()).collect(),
        };
        let mut programs = [program(5, &["./heat", "it's", ""]), program(1, &["./b", "x=1"])];
        let wanted = "-n 2 -H nodea:2 ./heat 'it'\\''s' ''\n-n 1 -H nodeb:1 ./heat 'it'\\''s' ''\n\
                      -n 1 -H nodea:1 ./heat 'it'\\''s' ''\n-n 1 -H nodeb:1 ./heat 'it'\\''s' ''\n-n 1 -H nodeb:1 ./b x=1\n";
        let text = schema(&programs, &hosts).unwrap();
        assert_eq!(text.split_once('\n').unwrap().1, wanted);
        programs[0].words.push("two\nlines".into());
        assert_eq!(schema(&programs, &hosts), None);
    }
}
