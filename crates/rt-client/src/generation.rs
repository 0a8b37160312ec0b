//! Which process is a rank when several want to be: the MPI programs of a script, one after
//! another, and the programs that they start.
//!
//! `mpirun` starts one process for each rank. That process, or one that it starts, becomes the
//! rank: its *owner*. When the owner has finalized MPI and ended, another process of the same
//! script can become the rank in the next *generation* of the job: with a new segment and a new
//! world of that generation's ranks alone.
//!
//! 1. A rank has one living owner at a time. A process that applies while the owner lives is a
//!    singleton: a tool that the rank has started.
//! 2. In a generation the first process that applies for a rank without an owner becomes the rank.
//! 3. The next generation begins when a process applies for a rank whose owner has left (finalized
//!    MPI and ended), and the owners of all other ranks have left too. A rank that has had no owner
//!    in this generation is waited for as well: its program may only be slow, and must not find
//!    itself in a world with its peers' next program.
//! 4. A process that applies earlier waits in MPI_Init; the state report names the ranks it waits
//!    for.
//! 5. If an owner ended without finalizing MPI, the job has failed and there is no next generation.
//!    The same holds if one rank's script has ended and another rank's script runs one more
//!    program.
//! 6. A process that has executed another program no longer counts as the owner. (A second
//!    application of the same program does not reach this code.)

/// The owner of a rank in the present generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    Inside {
        pid: u32,
    },
    /// Has finalized MPI and still runs.
    Lingers {
        pid: u32,
    },
    /// Has finalized MPI and ended.
    Left,
    /// Has ended without finalizing MPI.
    Died {
        pid: u32,
    },
}

/// A rank of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankSeat {
    pub number: u32,
    pub owner: Owner,
    /// Whether the process that the launcher started for this rank still runs.
    pub runs: bool,
}

/// The answer to a process that wants to be a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Now,
    /// The process is the rank in the next generation, which begins.
    Next,
    Waits(Vec<u32>),
    Singleton,
    /// No process can become the rank, as this rank ended without finalizing MPI.
    Died {
        number: u32,
        pid: u32,
    },
    /// The process would wait for ever for this rank, whose script has ended.
    Ended(u32),
}

/// Decides on process `pid`, which applies for rank `number` of a job with these ranks. All
/// `applying` processes (`pid` included) have just begun a program.
pub fn admit(number: u32, pid: u32, seats: &[RankSeat], applying: &[u32]) -> Admission {
    // Rule 6.
    let owner_of = |seat: &RankSeat| match seat.owner {
        Owner::Lingers { pid: owner } if owner == pid || applying.contains(&owner) => Owner::Left,
        Owner::Inside { pid: owner } if owner == pid || applying.contains(&owner) => {
            Owner::Died { pid: owner }
        }
        other => other,
    };
    let Some(own) = seats.iter().find(|seat| seat.number == number) else {
        return Admission::Singleton;
    };
    match owner_of(own) {
        Owner::Nobody => return Admission::Now,
        Owner::Inside { .. } | Owner::Lingers { .. } => return Admission::Singleton,
        Owner::Died { pid } => return Admission::Died { number, pid },
        Owner::Left => {}
    }
    let mut awaited = Vec::new();
    for seat in seats {
        match owner_of(seat) {
            Owner::Died { pid } => return Admission::Died { number: seat.number, pid },
            _ if !seat.runs => return Admission::Ended(seat.number),
            Owner::Left => {}
            Owner::Nobody | Owner::Inside { .. } | Owner::Lingers { .. } => {
                awaited.push(seat.number)
            }
        }
    }
    if awaited.is_empty() { Admission::Next } else { Admission::Waits(awaited) }
}

/// Why a rank is waited for, as a relative clause for the state report.
pub fn why_awaited(owner: Owner) -> String {
    match owner {
        Owner::Nobody => "whose first program has not called MPI_Init".into(),
        Owner::Inside { pid } => {
            format!("whose program before (pid {pid}) has not called MPI_Finalize")
        }
        Owner::Lingers { pid } => format!("whose program before (pid {pid}) has not ended"),
        Owner::Left | Owner::Died { .. } => "whose program before has ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: Owner = Owner::Inside { pid: 8 };
    const LINGERS: Owner = Owner::Lingers { pid: 8 };
    const DIED: Owner = Owner::Died { pid: 8 };

    fn seats(owners: &[Owner]) -> Vec<RankSeat> {
        (0..)
            .zip(owners)
            .map(|(number, owner)| RankSeat { number, owner: *owner, runs: true })
            .collect()
    }

    #[test]
    fn processes_are_admitted_by_the_rules() {
        use Admission::{Died, Next, Now, Singleton, Waits};
        use Owner::{Left, Nobody};
        let died = |number| Died { number, pid: 8 };
        // Process 5 applies for rank 0.
        let table: [(&[Owner], Admission); 12] = [
            (&[Nobody, Nobody], Now),
            (&[Nobody, Left], Now),
            (&[INSIDE, Left], Singleton),
            (&[LINGERS, Left], Singleton),
            (&[DIED, Left], died(0)),
            (&[Left], Next),
            (&[Left, Left, Left], Next),
            (&[Left, Nobody, Left], Waits(vec![1])),
            (&[Left, INSIDE, LINGERS], Waits(vec![1, 2])),
            (&[Left, INSIDE, DIED], died(2)),
            (&[Owner::Lingers { pid: 5 }, Left], Next),
            (&[Owner::Inside { pid: 5 }, Left], Died { number: 0, pid: 5 }),
        ];
        for (owners, wanted) in table {
            assert_eq!(admit(0, 5, &seats(owners), &[5]), wanted, "{owners:?}");
        }
        assert_eq!(admit(7, 5, &seats(&[Nobody]), &[5]), Singleton, "there is no such rank");
    }

    #[test]
    fn a_peer_that_waits_as_another_program_is_not_awaited() {
        let seats = seats(&[Owner::Left, LINGERS]);
        assert_eq!(admit(0, 5, &seats, &[5]), Admission::Waits(vec![1]));
        assert_eq!(admit(0, 5, &seats, &[5, 8]), Admission::Next);
    }

    #[test]
    fn a_script_that_has_ended_is_not_awaited() {
        let mut seats = seats(&[Owner::Left, Owner::Left]);
        seats[1].runs = false;
        assert_eq!(admit(0, 5, &seats, &[5]), Admission::Ended(1));
    }
}
