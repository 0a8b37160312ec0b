! ranks: 1 2
! Statements over many continuation lines, names in mixed case, blanks where fixed form has none.
      PROGRAM LINES
      IMPLICIT NONE
      Include 'mpif.h'
      INTEGER IERR, ME, NP, A, B, C
      CALL MPI_Init(IERR)
      call Mpi_Comm_Rank(MPI_Comm_World, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_ WORLD, NP, IERR)
      A = 10*ME
      CALL
     1 MPI_SENDRECV
     2 (
     3 A,
     4 1,
     5 MPI_INTEGER,
     6 MOD(ME+1, NP),
     7 1,
     8 B,
     9 1,
     A MPI_INTEGER,
     B MOD(ME+NP-1, NP),
     C 1,
     D MPI_COMM_WORLD, MPI_STAT
     EUS_IGNORE,
     F IERR
     G )
      IF (B .NE. 10*MOD(ME+NP-1, NP)) STOP 1
      CALL MPI_ALL REDUCE(ME, C, 1, MPI_INTEGER, MPI_SUM,
     & MPI_COMM_WORLD, IERR)
      IF (C .NE. NP*(NP-1)/2) S T O P 2
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
