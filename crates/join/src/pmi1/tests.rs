//! Conversations with a manager on a thread, which is as far as the socket a real one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};

use oxmpi_sys::spawn::is_live_socket;

use super::*;
use crate::manager::LONGEST_KEY;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

/// Serves one process as rank 1 of 2. `special` can answer a request in another form; an empty
/// answer stands for silence.
fn manager(
    mut special: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> (OwnedFd, JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let served = spawn(move || {
        let mut keys = BTreeMap::new();
        let mut requests = Vec::new();
        for line in BufReader::new(theirs.try_clone().unwrap()).lines().map_while(Result::ok) {
            requests.push(line.clone());
            let word = |name: &str| {
                let pair = line.split(' ').find_map(|pair| pair.strip_prefix(name));
                pair.unwrap_or_default().to_string()
            };
            let answer = special(&line).unwrap_or_else(|| match word("cmd=").as_str() {
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n".into(),
                "get_maxes" => "cmd=maxes keylen_max=64 vallen_max=100\n".into(),
                "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1\n".into(),
                "put" => {
                    assert!(line.len() < LONGEST_LINE, "{line}");
                    keys.insert(word("key="), word("value="));
                    "cmd=put_result rc=0\n".into()
                }
                "get" => match keys.get(&word("key=")) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}\n"),
                    None => "cmd=get_result rc=-1 msg=key_not_found value=unknown\n".into(),
                },
                "barrier_in" => "cmd=barrier_out tag=0\n".into(),
                "finalize" => "cmd=finalize_ack\n".into(),
                _ => String::new(),
            });
            // The process may have gone.
            let _ = (&theirs).write_all(answer.as_bytes());
        }
        requests
    });
    (ours.into(), served)
}

fn begun(
    special: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> (Result<Pmi1, JoinError>, JoinHandle<Vec<String>>) {
    let (socket, served) = manager(special);
    let known = PmiIdentity::Known { rank: 1, size: 2 };
    (Pmi1::converse(socket, "M".into(), known), served)
}

fn is_at(begin: &'static str, answer: &'static str) -> impl FnMut(&str) -> Option<String> {
    move |line| line.starts_with(begin).then(|| answer.to_string())
}

#[test]
fn a_value_of_any_length_comes_back() {
    let (pmi, served) = begun(|_| None);
    let mut pmi: Box<dyn ProcessManager> = Box::new(pmi.unwrap());
    assert_eq!((pmi.rank(), pmi.size(), pmi.job()), (1, 2, "kvs_1"));
    let long: Vec<u8> = (0..5000).map(|n| (n % 251) as u8).collect();
    let key = "k".repeat(LONGEST_KEY);
    pmi.put(&key, &long).unwrap();
    pmi.put("empty", b"").unwrap();
    pmi.fence(LONG).unwrap();
    assert_eq!(pmi.get(1, &key, LONG).unwrap().unwrap(), long);
    assert_eq!(pmi.get(1, "empty", LONG).unwrap().unwrap(), b"");
    assert_eq!(pmi.get(0, "empty", LONG).unwrap(), None);
    pmi.leave().unwrap();
    let requests = served.join().unwrap();
    assert_eq!(requests.last().unwrap(), "cmd=finalize");
}

#[test]
fn keys_that_not_every_manager_takes_are_refused() {
    let (pmi, _served) = begun(|_| None);
    let mut pmi = pmi.unwrap();
    for key in ["", "a b", "a=b", "ä", &"k".repeat(LONGEST_KEY + 1)] {
        assert!(matches!(pmi.put(key, b"x"), Err(JoinError::Key { .. })), "{key}");
    }
    pmi.longest_value = 3;
    let short = pmi.put("a", b"x").unwrap_err().to_string();
    assert!(short.contains("shorter values"), "{short}");
}

#[test]
fn a_manager_at_a_port_names_the_rank() {
    let lines = "cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n";
    let (socket, _served) = manager(is_at("cmd=initack pmiid=7", lines));
    let pmi = Pmi1::converse(socket, "M".into(), PmiIdentity::Id(7)).unwrap();
    assert_eq!((pmi.rank(), pmi.size()), (2, 3));
    let (socket, _served) =
        manager(is_at("cmd=initack", "cmd=initack\ncmd=set size=3\ncmd=set debug=0\n"));
    let error = Pmi1::converse(socket, "M".into(), PmiIdentity::Id(7)).unwrap_err();
    assert!(matches!(error, JoinError::Answer { .. }), "{error}");
}

#[test]
fn each_failure_is_an_error_with_its_reason() {
    let text = |pmi: Result<Pmi1, JoinError>| pmi.unwrap_err().to_string();
    let (refused, _) = begun(is_at("cmd=init", "cmd=response_to_init rc=-1\n"));
    assert_eq!(text(refused), "M refuses 'PMI of version 1.1': rc=-1");
    let (strange, _) = begun(is_at("cmd=init", "HTTP/1.1 400 Bad Request\n"));
    assert!(text(strange).contains("'HTTP/1.1 400 Bad Request', which cannot be understood"));
    let (nameless, _) = begun(is_at("cmd=get_my", "cmd=my_kvsname rc=0\n"));
    assert!(text(nameless).contains("no name"));
    let (socket, _) = manager(|_| None);
    let impossible = PmiIdentity::Known { rank: 2, size: 2 };
    assert!(text(Pmi1::converse(socket, "M".into(), impossible)).contains("PMI_RANK=2"));
    let nameless = Pmi1Address::Inherited { descriptor: 3, rank: None, size: 2 };
    let error = Pmi1::connect(&nameless).unwrap_err().to_string();
    assert!(error.contains("PMI_RANK=, which is no number"), "{error}");
    let (closed, other) = UnixStream::pair().unwrap();
    drop(other);
    let known = PmiIdentity::Known { rank: 0, size: 2 };
    let gone = Pmi1::converse(closed.into(), "M".into(), known).unwrap_err();
    assert!(matches!(gone, JoinError::Gone { .. }), "{gone}");
}

#[test]
fn after_a_missing_answer_no_later_one_is_taken_for_it() {
    let (pmi, served) = begun(is_at("cmd=barrier_in", ""));
    let mut pmi = pmi.unwrap();
    let late = pmi.fence(SHORT).unwrap_err().to_string();
    assert!(late.contains("'fence' within 0.05 s") && late.contains("must be an MPI"), "{late}");
    let after = pmi.get(0, "a", LONG).unwrap_err();
    assert!(matches!(after, JoinError::Gone { .. }), "{after}");
    // The thread reads the request, and ends when the socket is closed.
    rustix::net::shutdown(&pmi.lines.socket, rustix::net::Shutdown::Read).unwrap();
    let aborted = pmi.abort(3, "text");
    assert!(matches!(aborted, JoinError::Aborted { code: 3, .. }), "{aborted}");
    drop(pmi);
    assert_eq!(served.join().unwrap().last().unwrap(), "cmd=abort exitcode=3");
}

#[test]
fn values_of_other_programs_are_errors() {
    let (pmi, _served) =
        begun(is_at("cmd=get kvs", "cmd=get_result rc=0 value=(vector,(0,1,2))\n"));
    let error = pmi.unwrap().get(0, "a", LONG).unwrap_err().to_string();
    assert!(error.contains("(vector,(0,1,2))"), "{error}");
    let (pmi, _served) = begun(is_at("cmd=get kvs", "cmd=get_result rc=0 value=9999.A\n"));
    assert!(pmi.unwrap().get(0, "a", LONG).is_err());
}

#[test]
fn an_abort_returns_if_the_manager_does_not_end_this_process() {
    let (socket, other) = UnixStream::pair().unwrap();
    let served = spawn(move || {
        let mut lines = BufReader::new(&other).lines();
        let abort = lines.find_map(|line| {
            let line = line.unwrap();
            let answer: &[u8] = match line.as_str() {
                "cmd=get_maxes" => b"cmd=maxes\n",
                "cmd=get_my_kvsname" => b"cmd=my_kvsname kvsname=k\n",
                abort if abort.starts_with("cmd=abort") => return Some(abort.to_string()),
                _ => b"cmd=response_to_init\n",
            };
            (&other).write_all(answer).unwrap();
            None
        });
        abort.unwrap()
    });
    let mut pmi =
        Pmi1::converse(socket.into(), "M".into(), PmiIdentity::Known { rank: 0, size: 1 }).unwrap();
    let error = pmi.abort(7, "text");
    assert_eq!(error, JoinError::Aborted { manager: "M".into(), code: 7 });
    assert_eq!(served.join().unwrap(), "cmd=abort exitcode=7");
}

#[test]
fn a_later_program_finds_the_socket_closed() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let copy = ours.try_clone().unwrap();
    let served = spawn(move || {
        let mut line = String::new();
        BufReader::new(theirs.try_clone().unwrap()).read_line(&mut line).unwrap();
        (&theirs).write_all(b"cmd=finalize_ack\n").unwrap();
        std::thread::sleep(Duration::from_millis(20));
    });
    let manager = "M".to_string();
    let lines = PmiLines { socket: ours.into(), unread: Vec::new(), manager, is_broken: false };
    let pmi = Pmi1 { lines, rank: 0, size: 1, job: "j".into(), longest_value: 100 };
    Box::new(pmi).leave().unwrap();
    assert!(!is_live_socket(copy.as_raw_fd()));
    served.join().unwrap();
}
