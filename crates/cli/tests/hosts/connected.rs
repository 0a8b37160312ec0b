//! Jobs of several `mpirun`s, on several hosts and on one, that connect with each other.

use std::fs;
use std::process::{Child, Output};

use super::sorted;
use super::testbed::{Testbed, outcome, testbed};

/// connected SIDE FILE MODE: SIDE 0 opens a port, whose name it leaves in FILE, and accepts twice; SIDE 1 connects. All processes of the
/// one side talk with all of the other, and then all together. MODE 2 and 3: the last rank of side 0 or 1 dies when both have met
/// for the second time; 4: it dies when they have parted.
const CONNECTED: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { LONG = 1 << 18 };
static int out[LONG], in[LONG];
int main(int argc, char **argv)
{
    int side = atoi(argv[1]), mode = atoi(argv[3]);
    char port[MPI_MAX_PORT_NAME] = "", next[1000];
    int rank, size, remote, sum, one = 1;
    MPI_Comm other, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (side == 0 && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        snprintf(next, sizeof next, "%s.new", argv[2]);
        FILE *file = fopen(next, "w");
        fputs(port, file);
        fclose(file);
        rename(next, argv[2]);
    } else if (rank == 0) {
        FILE *file;
        while (!(file = fopen(argv[2], "r")))
            usleep(10000);
        if (!fgets(port, sizeof port, file)) MPI_Abort(MPI_COMM_WORLD, 9);
        fclose(file);
    }
    for (int round = 0; round < 2; round++) {
        if (side == 0) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        } else {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        }
        MPI_Comm_remote_size(other, &remote);
        if (round == 1 && (mode == 2 || mode == 3)) MPI_Barrier(other);
        if (round == 1 && mode == 2 + side) {
            if (rank == size - 1) kill(getpid(), SIGKILL);
            MPI_Recv(in, 1, MPI_INT, remote - 1, 99, other, MPI_STATUS_IGNORE);
        }
        for (int length = 1; length <= LONG; length *= 64)
            for (int peer = 0; peer < remote; peer++) {
                for (int i = 0; i < length; i++) out[i] = rank + i;
                memset(in, 0, sizeof in);
                MPI_Sendrecv(out, length, MPI_INT, peer, 5, in, length, MPI_INT, peer, 5, other, MPI_STATUS_IGNORE);
                for (int i = 0; i < length; i++)
                    if (in[i] != peer + i) MPI_Abort(MPI_COMM_WORLD, 7);
            }
        MPI_Intercomm_merge(other, side, &all);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        MPI_Bcast(out, LONG, MPI_INT, size + remote - 1, all);
        MPI_Barrier(all);
        if (rank == 0) printf("side %d: %d together\n", side, sum);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&other);
    }
    if (mode == 4 && side == 1 && rank == size - 1) kill(getpid(), SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mode == 4 && side == 0) sleep(1);
    MPI_Finalize();
    return 0;
}
"#;

struct Pair {
    bed: Testbed,
    program: String,
    port: String,
}

impl Pair {
    fn new() -> Option<Pair> {
        let bed = testbed()?;
        let program = bed.compile_text("connected", CONNECTED);
        let port = bed.directory.join("port").to_str().unwrap().to_string();
        Some(Pair { bed, program, port })
    }

    fn start(&self, side: &str, options: &[&str], mode: &str) -> Child {
        let words = [options, &[&self.program, side, &self.port, mode]].concat();
        self.bed.mpirun(&words).spawn().unwrap()
    }

    /// Runs both sides: what became of either.
    fn run(&self, sides: [&[&str]; 2], mode: &str) -> [(Option<i32>, String, String); 2] {
        let _ = fs::remove_file(&self.port);
        let all = ["0", "1"].into_iter().zip(sides).map(|(side, options)| self.start(side, options, mode));
        let all: Vec<Child> = all.collect();
        let end = |child: Child| -> Output { child.wait_with_output().unwrap() };
        let [first, second] = <[Child; 2]>::try_from(all).unwrap();
        [outcome(end(first)), outcome(end(second))]
    }

    fn meet(&self, sides: [&[&str]; 2], together: u32) {
        let ends = self.run(sides, "0");
        for (side, (code, out, err)) in ends.into_iter().enumerate() {
            let line = format!("side {side}: {together} together");
            assert_eq!((code, &*err, sorted(&out)), (Some(0), "", vec![&*line, &*line]), "{sides:?}");
        }
    }
}

const SPREAD: &[&str] = &["-H", "nodea:2,nodeb:1"];
const HERE: &[&str] = &["-n", "2"];

#[test]
fn jobs_on_several_hosts_and_on_one_connect() {
    let Some(pair) = Pair::new() else { return };
    pair.meet([SPREAD, HERE], 5);
    pair.meet([HERE, SPREAD], 5);
    pair.meet([SPREAD, &["-H", "nodeb:2,localhost:2"]], 7);
    // All of the one are on one other host.
    pair.meet([&["-H", "nodea:2"], HERE], 4);
    pair.meet([HERE, &["-H", "nodea:2"]], 4);
    pair.meet([&["-H", "nodea:2"], &["-H", "nodea:2"]], 4);
    pair.bed.is_clean();
}

#[test]
fn jobs_of_several_transports_connect() {
    let Some(pair) = Pair::new() else { return };
    for rpi in ["tcp", "usysv", "sysv", "crtcp", "lamd"] {
        pair.meet([&["-n", "2", "--mca", "rpi", rpi], SPREAD], 5);
        pair.meet([HERE, &["-n", "2", "--mca", "rpi", rpi]], 4);
    }
    pair.meet([&["-n", "2", "--mca", "mpi_virtual_nodes", "2"], HERE], 4);
    // Through daemons on several hosts, which do not reach the other job.
    let daemons: &[&str] = &["-H", "nodea:2,nodeb:1", "--mca", "rpi", "lamd"];
    pair.meet([daemons, HERE], 5);
    pair.meet([SPREAD, daemons], 6);
    pair.meet([daemons, daemons], 6);
    pair.bed.is_clean();
}

#[test]
fn a_death_ends_the_connected_jobs_of_other_hosts_and_no_others() {
    let Some(pair) = Pair::new() else { return };
    for sides in [[SPREAD, HERE], [HERE, SPREAD], [SPREAD, SPREAD]] {
        for (mode, dead) in [("2", 0), ("3", 1)] {
            let ends = pair.run(sides, mode);
            let (code, _, err) = &ends[dead];
            assert!(*code == Some(137) && err.contains("was killed by SIGKILL"), "{sides:?} {mode}: {err}");
            let (code, _, err) = &ends[1 - dead];
            assert!(*code == Some(137) && err.contains("was killed by SIGKILL"), "{sides:?} {mode}: {err}");
        }
        let [first, second] = pair.run(sides, "4");
        assert_eq!((first.0, &*first.2), (Some(0), ""), "{sides:?}");
        assert_eq!(second.0, Some(137), "{sides:?}");
    }
    pair.bed.is_clean();
}
