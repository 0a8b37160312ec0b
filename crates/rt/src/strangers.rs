//! Who loses its place among those who have connected and have not proved who they are.
//!
//! Everybody who can reach a listener can connect, as often as it likes, and say nothing. If they could fill all places, or the
//! queue of those who wait to be accepted, nobody else would come in. So all are accepted as they come, and when there is no place
//! the oldest loses its own; those who have greeted last, as only who knows a secret, or has recorded somebody who does, can.
//! Who has business here says so at once, long before so many others have come.

/// Connections that are accepted before others have their turn.
pub(crate) const AT_ONCE: usize = 16;

/// The one that loses its place, if there are `most` or more: of each its number, which grows with time, and whether it has greeted.
pub(crate) fn loser<T: Ord>(all: impl Iterator<Item = (T, bool)>, most: usize) -> Option<T> {
    let mut count = 0;
    let worst = all.inspect(|_| count += 1).map(|(number, has_greeted)| (has_greeted, number)).min();
    worst.filter(|_| count >= most).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::loser;

    #[test]
    fn the_oldest_who_has_not_greeted_goes_then_the_oldest() {
        let all = [(1, true), (2, false), (3, false), (4, true)];
        assert_eq!(loser(all.into_iter(), 5), None);
        assert_eq!(loser(all.into_iter(), 4), Some(2));
        assert_eq!(loser([(1, true), (4, true)].into_iter(), 2), Some(1));
        assert_eq!(loser(std::iter::empty::<(u64, bool)>(), 0), None);
    }
}
