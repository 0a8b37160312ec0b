//! All messages of launchers, agents, daemons, tools and ranks, from bytes that nobody has encoded,
//! or that were changed on their way. OXMPI_FUZZ_SECONDS (1) says how long, OXMPI_FUZZ_SEED replays
//! one case.
#![allow(clippy::unwrap_used)] // a failure is the test's

#[path = "../../wire/tests/support/random.rs"]
mod random;
#[path = "../../wire/tests/support/seeds.rs"]
mod seeds;

use std::fmt::Debug;

use oxmpi_rt_client::codec;
use oxmpi_rt_client::control::{Reply, Request};
use oxmpi_rt_client::universe::{Parent, ProcessName, Spawn};
use oxmpi_rt_proto::agent::{
    AgentOrder, DownRoute, FromAgent, ToAgent, UpRoute, find_greeting, greeting, next,
};
use oxmpi_rt_proto::daemon::DaemonMessage;
use oxmpi_rt_proto::held::{Held, HeldRank, Layout};
use oxmpi_rt_proto::link::LinkMessage;
use oxmpi_rt_proto::tool::{FarImages, JobFacts, ToolReply, ToolRequest};
use random::Random;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn fuzz(case: impl Fn(&mut Random)) {
    seeds::each_seed(|seed| case(&mut Random(seed)));
}

fn bytes(random: &mut Random, most: usize) -> Vec<u8> {
    // Small numbers are variants, lengths and flags; zeros alone make the longest messages. Others
    // are the contents of texts.
    let (zeros, small) = (random.below(8), random.below(4));
    let draw = |random: &mut Random| match (random.below(8) < zeros, random.below(4) < small) {
        (true, _) => 0,
        (_, true) => random.below(3) as u8,
        _ => random.draw() as u8,
    };
    (0..random.below(most)).map(|_| draw(random)).collect()
}

/// A message from random bytes. `None`: the bytes are none.
fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    random: &mut Random,
    most: usize,
) -> Option<T> {
    // Of a longer sequence of bytes a message is the beginning.
    let mut all = vec![random.below(48) as u8];
    all.extend(bytes(random, most));
    let message = (1..=all.len()).find_map(|end| codec::decode::<T>(&all[..end]))?;
    let encoded = codec::encode(&message);
    assert_eq!(codec::decode::<T>(&encoded).as_ref(), Some(&message), "it comes back");
    Some(message)
}

/// Changes a message, which then is another one or none.
fn change<T: Serialize + DeserializeOwned + PartialEq + Debug>(random: &mut Random, message: &T) {
    let mut bytes = codec::encode(message);
    let end = random.below(bytes.len());
    assert_eq!(codec::decode::<T>(&bytes[..end]), None, "a part of {message:?}");
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        bytes[at] = random.draw() as u8;
    }
    if let Some(other) = codec::decode::<T>(&bytes) {
        assert_eq!(codec::decode(&codec::encode(&other)), Some(other));
    }
}

#[test]
fn any_bytes_are_a_message_that_comes_back_or_none() {
    macro_rules! try_all {
        ($($type:ty),*) => {
            fuzz(|random| {
                $(
                    // Zeros are the first variant, and empty texts and lists.
                    let zeros = [0; 200];
                    let shortest = (1..=200).find_map(|end| codec::decode::<$type>(&zeros[..end]));
                    change(random, &shortest.expect(stringify!($type)));
                    if let Some(drawn) = message::<$type>(random, 120) {
                        change(random, &drawn);
                    }
                )*
            });
        };
    }
    try_all!(
        Request,
        Reply,
        Spawn,
        Parent,
        ProcessName,
        ToAgent,
        AgentOrder,
        FromAgent,
        DownRoute,
        UpRoute,
        DaemonMessage,
        LinkMessage,
        ToolRequest,
        ToolReply,
        JobFacts,
        FarImages,
        Held,
        HeldRank,
        Layout
    );
}

#[test]
fn packets_and_frames_of_any_bytes_are_read_or_refused() {
    fuzz(|random| {
        let mut all = vec![[oxmpi_rt_client::control::VERSION, 0x82, 4][random.below(3)]];
        all.extend(bytes(random, 80));
        if let Ok(message) = Request::decode(&all) {
            assert_eq!(Request::decode(&message.encode()), Ok(message));
        }
        if let Ok(message) = Reply::decode(&all) {
            assert_eq!(Reply::decode(&message.encode()), Ok(message));
        }
        if let Ok(message) = LinkMessage::decode(&all) {
            assert_eq!(LinkMessage::decode(&message.encode().unwrap()), Ok(message));
        }
        let _ = (ToolRequest::decode(&all), ToolReply::decode(&all), Held::decode(&all));
        let _ = (DaemonMessage::decode(&all), ToAgent::open(&all), FromAgent::open(&all));
        let _ = (next(&all), find_greeting(&all));
    });
}

#[test]
fn a_stream_is_the_same_however_it_is_cut() {
    fuzz(|random| {
        let messages: Vec<FromAgent> = (0..6).filter_map(|_| message(random, 60)).collect();
        let mut stream = [&bytes(random, 40)[..], b"\n", greeting().as_bytes()].concat();
        messages.iter().for_each(|message| stream.extend(message.encode(3, 0)));
        let (mut came, mut has_greeted, mut read) = (Vec::new(), false, Vec::new());
        for byte in stream {
            came.push(byte);
            if !has_greeted {
                // The bytes before the greeting may be anything but a greeting of another version.
                match find_greeting(&came) {
                    Ok(Some(length)) => (has_greeted, _) = (true, came.drain(..length)),
                    other => assert_eq!(other, Ok(None)),
                }
            } else if let Some(length) = next(&came).unwrap() {
                let frame: Vec<u8> = came.drain(..length).collect();
                let (found, message) = FromAgent::open(&frame).unwrap();
                assert_eq!(found.node, 3);
                read.push(FromAgent::decode(message).unwrap());
            }
        }
        assert_eq!(read, messages);
    });
}
