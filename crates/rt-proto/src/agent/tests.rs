use super::*;

#[test]
fn the_greeting_is_found_behind_what_login_scripts_print() {
    let own = greeting();
    assert_eq!(find_greeting(own.as_bytes()), Ok(Some(own.len())));
    let noisy = format!("Welcome!\nOXMPI\n{own}rest");
    assert_eq!(find_greeting(noisy.as_bytes()), Ok(Some(noisy.len() - 4)));
    assert_eq!(find_greeting(&noisy.as_bytes()[..noisy.len() - 5]), Ok(None));
    assert_eq!(find_greeting(b""), Ok(None));
    let other = find_greeting(b"OXMPI-AGENT 9.9.9 (agents 7)\n").unwrap_err().to_string();
    assert!(other.contains("OxMPI 9.9.9 (agents 7)") && other.contains("--prefix"), "{other}");
    let release = format!("OXMPI-AGENT 9.9.9 (agents {VERSION})\n");
    assert_eq!(find_greeting(release.as_bytes()), Ok(Some(release.len())), "the same messages");
    let noise = vec![b'x'; MAX_NOISE + 1];
    assert!(matches!(find_greeting(&noise), Err(StreamError::NoAgent(text)) if text.len() == 400));
}

#[test]
fn an_impossible_length_is_reported() {
    assert_eq!(next(&[0, 0, 0, 0, 3]), Err(StreamError::Malformed { length: 0 }));
    assert!(next(&[0xff, 0xff, 0xff, 0xff, 1]).is_err());
    assert_eq!(next(&[1, 0, 0]), Ok(None));
    assert!(ToAgent::open(&[1, 0, 0, 0, 200]).is_err());
}

#[test]
fn an_agent_between_reads_the_route_alone() {
    let route = DownRoute {
        to: Receivers::Nodes(vec![1, 9]),
        round: Some(BranchRound::Reached),
        number: 7,
    };
    let message = ToAgent::Host(HostOrder::Died { count: 3 });
    let bytes = message.encode(&route);
    assert_eq!(next(&bytes), Ok(Some(bytes.len())));
    let (found, rest) = ToAgent::open(&bytes).unwrap();
    assert_eq!((found, ToAgent::decode(rest)), (route, Ok(message)));
}
