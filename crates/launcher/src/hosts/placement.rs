//! The host of each rank, computed from names and numbers alone.

/// A host with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSlots {
    pub host: String,
    /// Ranks that the host gets before others get more than their slots; at least 1.
    pub slots: u32,
    pub max_slots: Option<u32>,
}

/// Ranks, and the hosts for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroup {
    pub ranks: u32,
    /// Indices in the list of all hosts, in the order of filling.
    pub hosts: Vec<usize>,
    /// Ranks on each host, if given.
    pub per_host: Option<u32>,
    /// Whether `hosts` lists the host of each rank, repeated as needed, regardless of slots.
    pub is_seated: bool,
}

/// The order in which hosts get ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// All slots of one host, then all of the next.
    #[default]
    Slot,
    /// One rank per host, round robin.
    Node,
}

/// Why ranks cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error(
        "{ranks} ranks on {slots} slots, which --nooversubscribe forbids: leave it out, or start fewer ranks (hosts: {hosts})"
    )]
    Slots { ranks: u32, slots: u64, hosts: String },
    #[error("{ranks} ranks, but the host file allows {most} (max-slots) on {hosts}")]
    MaxSlots { ranks: u32, most: u64, hosts: String },
    #[error(
        "{ranks} ranks with {each} on each host need {needed} hosts, and there are {there}: {hosts}"
    )]
    PerHost { ranks: u32, each: u32, needed: u32, there: usize, hosts: String },
}

/// Places ranks: returns the index in `rooms` of each rank's host. When all slots are taken, each
/// host gets its number of slots once more, and so on, if oversubscription is allowed.
pub fn place(
    rooms: &[HostSlots],
    crowds: &[RankGroup],
    by: By,
    may_oversubscribe: bool,
) -> Result<Vec<u32>, PlacementError> {
    let mut taken = vec![0u32; rooms.len()];
    let mut placed = Vec::new();
    for crowd in crowds {
        let hosts = || {
            let names = crowd.hosts.iter().filter_map(|at| Some(&*rooms.get(*at)?.host));
            names.collect::<Vec<_>>().join(", ")
        };
        if let Some(each) = crowd.per_host {
            let needed = crowd.ranks.div_ceil(each.max(1));
            if needed as usize > crowd.hosts.len() {
                let (ranks, there) = (crowd.ranks, crowd.hosts.len());
                return Err(PlacementError::PerHost { ranks, each, needed, there, hosts: hosts() });
            }
        }
        if crowd.is_seated {
            seat(rooms, crowd, &mut taken, &mut placed, may_oversubscribe)?;
            continue;
        }
        let mut left = crowd.ranks;
        let mut given = vec![0u32; crowd.hosts.len()];
        let mut round = 1u32;
        while left > 0 {
            let mut came = false;
            for (place, host) in crowd.hosts.iter().enumerate() {
                let Some(room) = rooms.get(*host) else { continue };
                let room_for = |taken: u32, given: u32| match crowd.per_host {
                    Some(each) => given < each && room.max_slots.is_none_or(|most| taken < most),
                    None => taken < limit(room, round),
                };
                while left > 0 && room_for(taken[*host], given[place]) {
                    (left, came) = (left - 1, true);
                    taken[*host] += 1;
                    given[place] += 1;
                    placed.push(*host as u32);
                    if by == By::Node {
                        break;
                    }
                }
            }
            let may_grow = crowd.per_host.is_none()
                && crowd
                    .hosts
                    .iter()
                    .filter_map(|at| rooms.get(*at))
                    .any(|room| limit(room, round) < room.max_slots.unwrap_or(u32::MAX));
            if came && by == By::Node || left == 0 {
                continue;
            }
            let sum = |of: fn(&HostSlots) -> u32| {
                crowd
                    .hosts
                    .iter()
                    .filter_map(|at| rooms.get(*at))
                    .map(|room| u64::from(of(room)))
                    .sum()
            };
            if !may_grow {
                let most = sum(|room| room.max_slots.unwrap_or(room.slots));
                return Err(PlacementError::MaxSlots { ranks: crowd.ranks, most, hosts: hosts() });
            }
            if !may_oversubscribe {
                let slots = sum(|room| room.slots);
                return Err(PlacementError::Slots { ranks: crowd.ranks, slots, hosts: hosts() });
            }
            round = round.saturating_add(1);
        }
    }
    Ok(placed)
}

fn seat(
    rooms: &[HostSlots],
    crowd: &RankGroup,
    taken: &mut [u32],
    placed: &mut Vec<u32>,
    may_oversubscribe: bool,
) -> Result<(), PlacementError> {
    for host in crowd.hosts.iter().cycle().take(crowd.ranks as usize) {
        let Some((room, taken)) = rooms.get(*host).zip(taken.get_mut(*host)) else { continue };
        *taken += 1;
        let (ranks, hosts) = (*taken, room.host.clone());
        match room.max_slots {
            Some(most) if ranks > most => {
                return Err(PlacementError::MaxSlots { ranks, most: most.into(), hosts });
            }
            _ if !may_oversubscribe && ranks > room.slots => {
                return Err(PlacementError::Slots { ranks, slots: room.slots.into(), hosts });
            }
            _ => placed.push(*host as u32),
        }
    }
    Ok(())
}

/// The most ranks of a host in a round.
fn limit(room: &HostSlots, round: u32) -> u32 {
    room.slots.max(1).saturating_mul(round).min(room.max_slots.unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(slots: &[(u32, Option<u32>)]) -> Vec<HostSlots> {
        let room = |(at, (slots, max_slots)): (u8, &(u32, Option<u32>))| HostSlots {
            host: char::from(b'a' + at).to_string(),
            slots: *slots,
            max_slots: *max_slots,
        };
        (0..).zip(slots).map(room).collect()
    }

    fn all(ranks: u32, rooms: &[HostSlots], by: By) -> Result<Vec<u32>, PlacementError> {
        let crowd = RankGroup {
            ranks,
            hosts: (0..rooms.len()).collect(),
            per_host: None,
            is_seated: false,
        };
        place(rooms, &[crowd], by, true)
    }

    #[test]
    fn hosts_are_filled_by_slots_or_round_robin_and_then_once_more() {
        let two = rooms(&[(2, None), (1, None)]);
        assert_eq!(all(2, &two, By::Slot).unwrap(), [0, 0]);
        assert_eq!(all(7, &two, By::Slot).unwrap(), [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(all(3, &two, By::Node).unwrap(), [0, 1, 0]);
        assert_eq!(all(6, &two, By::Node).unwrap(), [0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn too_few_slots_are_reported() {
        let two = rooms(&[(2, Some(2)), (1, Some(3))]);
        assert_eq!(all(5, &two, By::Slot).unwrap(), [0, 0, 1, 1, 1]);
        let error = all(6, &two, By::Slot).unwrap_err().to_string();
        assert_eq!(error, "6 ranks, but the host file allows 5 (max-slots) on a, b");
        let two = rooms(&[(2, None), (1, None)]);
        let crowd = RankGroup { ranks: 4, hosts: vec![0, 1], per_host: None, is_seated: false };
        let error = place(&two, &[crowd], By::Slot, false).unwrap_err().to_string();
        assert!(
            error.starts_with("4 ranks on 3 slots, which --nooversubscribe forbids"),
            "{error}"
        );
        let crowd = RankGroup { ranks: 5, hosts: vec![0, 1], per_host: Some(2), is_seated: false };
        let error = place(&two, &[crowd], By::Slot, true).unwrap_err().to_string();
        assert_eq!(error, "5 ranks with 2 on each host need 3 hosts, and there are 2: a, b");
    }

    #[test]
    fn ranks_can_have_listed_hosts() {
        let two = rooms(&[(2, None), (1, Some(2))]);
        let seated = |ranks, hosts: &[usize], may| {
            let crowd = RankGroup { ranks, hosts: hosts.to_vec(), per_host: None, is_seated: true };
            place(&two, &[crowd], By::Slot, may)
        };
        assert_eq!(seated(3, &[1, 0, 0], false).unwrap(), [1, 0, 0]);
        assert_eq!(seated(5, &[0, 1], true).unwrap(), [0, 1, 0, 1, 0]);
        let error = seated(3, &[1], true).unwrap_err().to_string();
        assert_eq!(error, "3 ranks, but the host file allows 2 (max-slots) on b");
        let error = seated(3, &[0], false).unwrap_err().to_string();
        assert!(
            error.starts_with("3 ranks on 2 slots, which --nooversubscribe forbids"),
            "{error}"
        );
    }

    #[test]
    fn programs_have_hosts_of_their_own_and_share_slots() {
        let three = rooms(&[(2, None), (2, None), (1, None)]);
        let crowds = [
            RankGroup { ranks: 1, hosts: vec![1], per_host: None, is_seated: false },
            RankGroup { ranks: 3, hosts: vec![0, 1], per_host: None, is_seated: false },
            RankGroup { ranks: 3, hosts: vec![2, 0], per_host: Some(2), is_seated: false },
        ];
        assert_eq!(place(&three, &crowds, By::Slot, false).unwrap(), [1, 0, 0, 1, 2, 2, 0]);
    }
}
