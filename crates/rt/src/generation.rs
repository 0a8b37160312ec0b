//! Which process is a rank, if several want to be: the programs of a script one after the other, and what they start.
//!
//! `mpirun` starts one process for each rank. That, or a process that it starts, is the rank: its *owner*. When the owner has
//! finalized MPI and ended, another process that the first one starts can become the rank, in the next *generation* of the job:
//! with a new segment, in a new world, beside others of that generation alone.
//!
//! 1. A rank has one living owner at a time. Who asks while it lives is a singleton: a tool that the rank has started.
//! 2. In a generation a rank that nobody has been yet is whoever asks first.
//! 3. The next generation begins when a process wants to be a rank whose owner has left, and the owners of all ranks have:
//!    finalized MPI and ended. A rank that nobody has been in this generation is waited for as well: its program may only be
//!    slow, and would find itself in a world with the next one of its peers.
//! 4. Who asks earlier waits in MPI_Init, for those that are named in the state report.
//! 5. If the owner of a rank has ended without finalizing MPI, there is no next generation: that is a failure of the job. So it is
//!    if a rank's script has ended, and another's runs one more program.
//! 6. A process that executes another program is gone as an owner as if it had ended. (One that asks again in the same program is
//!    not among those that ask.)

/// Who is a rank in the present generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody yet.
    Nobody,
    /// A process that has not finalized MPI.
    Inside {
        /// Its number.
        pid: u32,
    },
    /// A process that has, and has not ended.
    Lingers {
        /// Its number.
        pid: u32,
    },
    /// It has finalized MPI and ended.
    Left,
    /// It has ended without that.
    Died {
        /// Its number.
        pid: u32,
    },
}

/// A rank of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its number among the launcher's processes.
    pub number: u32,
    /// Who is the rank.
    pub owner: Owner,
    /// Whether the process that the launcher has started still runs.
    pub runs: bool,
}

/// What becomes of a process that wants to be a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is the rank, in the present generation.
    Now,
    /// It is, in the next generation, which begins.
    Next,
    /// It waits for these ranks.
    Waits(Vec<u32>),
    /// It is a singleton.
    Singleton,
    /// It cannot be the rank, and nobody can: a rank has died so.
    Died {
        /// The rank.
        number: u32,
        /// Its process.
        pid: u32,
    },
    /// It would wait for ever for this rank, whose script has ended.
    Ended(u32),
}

/// What becomes of process `pid`, which wants to be rank `number` of a job with these ranks. All `asking` processes (this one
/// among them) have just begun a program.
pub fn admit(number: u32, pid: u32, seats: &[Seat], asking: &[u32]) -> Admission {
    // Rule 6.
    let owner_of = |seat: &Seat| match seat.owner {
        Owner::Lingers { pid: owner } if owner == pid || asking.contains(&owner) => Owner::Left,
        Owner::Inside { pid: owner } if owner == pid || asking.contains(&owner) => Owner::Died { pid: owner },
        other => other,
    };
    let Some(own) = seats.iter().find(|seat| seat.number == number) else { return Admission::Singleton };
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
            Owner::Nobody | Owner::Inside { .. } | Owner::Lingers { .. } => awaited.push(seat.number),
        }
    }
    if awaited.is_empty() { Admission::Next } else { Admission::Waits(awaited) }
}

/// What is said of a rank that is waited for.
pub fn why_awaited(owner: Owner) -> String {
    match owner {
        Owner::Nobody => "whose first program has not called MPI_Init".into(),
        Owner::Inside { pid } => format!("whose program before (pid {pid}) has not called MPI_Finalize"),
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

    fn seats(owners: &[Owner]) -> Vec<Seat> {
        (0..).zip(owners).map(|(number, owner)| Seat { number, owner: *owner, runs: true }).collect()
    }

    #[test]
    fn who_asks_is_admitted_by_the_rules() {
        use Admission::{Died, Next, Now, Singleton, Waits};
        use Owner::{Left, Nobody};
        let died = |number| Died { number, pid: 8 };
        // Process 5 asks for rank 0.
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
