//! Which unauthenticated connection is closed when there are too many.
//!
//! Any process that can reach a listener can connect repeatedly and stay silent. If such
//! connections could fill all slots or the accept queue, no rank could connect. So all are
//! accepted, and when the slots are full the oldest connection is closed; connections that have
//! greeted are closed last, as a greeting needs a secret, or the recording of one. A process of the
//! job greets at once, long before enough others connect to displace it.

/// How many connections are accepted before other events are served.
pub const AT_ONCE: usize = 16;

/// The connection to close, if there are `most` or more. Each item is a connection's number, which
/// grows with time, and whether it has greeted.
pub fn loser<T: Ord>(all: impl Iterator<Item = (T, bool)>, most: usize) -> Option<T> {
    let mut count = 0;
    let worst =
        all.inspect(|_| count += 1).map(|(number, has_greeted)| (has_greeted, number)).min();
    worst.filter(|_| count >= most).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::loser;

    #[test]
    fn the_oldest_without_a_greeting_is_closed_first_then_the_oldest() {
        let all = [(1, true), (2, false), (3, false), (4, true)];
        assert_eq!(loser(all.into_iter(), 5), None);
        assert_eq!(loser(all.into_iter(), 4), Some(2));
        assert_eq!(loser([(1, true), (4, true)].into_iter(), 2), Some(1));
        assert_eq!(loser(std::iter::empty::<(u64, bool)>(), 0), None);
    }
}
