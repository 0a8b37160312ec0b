//! Processes that jobs on several hosts spawn.

use super::sorted;
use super::testbed::{outcome, testbed};

/// spawned HOSTS NUMBER MODE: spawns processes on HOSTS ("-" leaves the choice), which say where they are, and talk with them and
/// among each other. A child that is told so then dies.
const SPAWNED: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, all;
    int rank, size, sum, one = 1, code;
    char host[256], text[MPI_MAX_ERROR_STRING];
    MPI_Init(&argc, &argv);
    gethostname(host, sizeof host);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Info info;
        MPI_Info_create(&info);
        if (strcmp(argv[1], "-")) MPI_Info_set(info, "host", argv[1]);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        code = MPI_Comm_spawn(argv[0], argv + 1, atoi(argv[2]), info, 0, MPI_COMM_WORLD, &parent, MPI_ERRCODES_IGNORE);
        if (code) {
            MPI_Error_string(code, text, &size);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            if (rank == 0) printf("%s\n", text);
            MPI_Finalize();
            return 0;
        }
        MPI_Intercomm_merge(parent, 0, &all);
    } else {
        MPI_Intercomm_merge(parent, 1, &all);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("child %d on %s\n", rank, host);
        fflush(stdout);
        if (!strcmp(argv[3], "die") && rank == 1) abort();
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    static char data[1 << 20];
    for (int peer = 0; peer < size; peer++)
        MPI_Bcast(data, sizeof data, MPI_BYTE, peer, all);
    if (sum != size) MPI_Abort(MPI_COMM_WORLD, 5);
    if (rank == 0) printf("%d together\n", sum);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn processes_are_spawned_on_hosts_of_the_job() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("spawned", SPAWNED);
    let spawn = |options: &[&str], hosts: &str, words: [&str; 3]| {
        let words = [options, &["-n", "2", "-H", hosts, &program], &words].concat();
        let (code, out, err) = bed.run(&words);
        assert_eq!((code, &*err), (Some(0), ""), "{words:?}: {out}");
        sorted(&out).join(", ")
    };
    let named = "2 together, child 0 on nodeb, child 1 on nodea, child 2 on nodeb".replace('2', "5");
    let named = named.replace("child 5", "child 2");
    for rpi in ["shm", "tcp", "lamd", "crtcp"] {
        let options = ["--mca", "rpi", rpi];
        assert_eq!(spawn(&options, "nodea,nodeb", ["nodeb,nodea", "3", "-"]), named, "{rpi}");
    }
    // Where slots are free; on the host of mpirun if it is named; in a job on one other host.
    let free = spawn(&[], "nodea:1,nodeb:3", ["-", "2", "-"]);
    assert_eq!(free, "4 together, child 0 on nodeb, child 1 on nodeb");
    let here = spawn(&[], "nodea,nodeb", ["localhost,nodea", "2", "-"]);
    assert_eq!(here, "4 together, child 0 on head, child 1 on nodea");
    let one = spawn(&[], "nodeb:2", ["-", "2", "-"]);
    assert_eq!(one, "4 together, child 0 on nodeb, child 1 on nodeb");
    let error = spawn(&[], "nodea,nodeb", ["nodea,other", "2", "-"]);
    assert!(error.contains("host 'other' is none of the job's, which are nodea, nodeb"), "{error}");
    bed.is_clean();
}

#[test]
fn the_end_of_a_spawned_process_is_reported_with_its_host() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("spawned", SPAWNED);
    let words = ["-n", "2", "-H", "nodea,nodeb", &program, "nodea,nodeb", "2", "die"];
    let (code, _, err) = outcome(bed.mpirun(&words).output().unwrap());
    assert_eq!(code, Some(134), "{err}");
    assert!(
        err.contains("rank 1 of spawned job 1 (pid ") && err.contains("host nodeb) was killed by SIGABRT"),
        "{err}"
    );
    bed.is_clean();
}
