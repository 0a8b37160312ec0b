! ranks: 1 2
! A tool of the program counts its calls of MPI_SEND and passes them on by the other name.
      SUBROUTINE MPI_SEND(BUF, COUNT, TYPE, DEST, TAG, COMM, IERR)
      IMPLICIT NONE
      INTEGER BUF(*), COUNT, TYPE, DEST, TAG, COMM, IERR, CALLS, SENT
      COMMON /TOOL/ CALLS, SENT
      CALLS = CALLS + 1
      SENT = SENT + COUNT
      CALL PMPI_SEND(BUF, COUNT, TYPE, DEST, TAG, COMM, IERR)
      END

      PROGRAM PROFIL
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, K, A(8), B(8), REQ, CALLS, SENT
      COMMON /TOOL/ CALLS, SENT
      COMMON /DATA/ B
      CALLS = 0
      SENT = 0
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 20 K = 1, 8
         A(K) = 10*ME + K
         CALL MPI_IRECV(B, K, MPI_INTEGER, MOD(ME+NP-1, NP), K,
     &                  MPI_COMM_WORLD, REQ, IERR)
         CALL MPI_SEND(A, K, MPI_INTEGER, MOD(ME+1, NP), K,
     &                 MPI_COMM_WORLD, IERR)
         CALL MPI_WAIT(REQ, MPI_STATUS_IGNORE, IERR)
         CALL MPI_F_SYNC_REG(B)
         IF (B(K) .NE. 10*MOD(ME+NP-1, NP) + K) STOP 1
   20 CONTINUE
      CALL PMPI_SEND(A, 1, MPI_INTEGER, MPI_PROC_NULL, 1,
     &               MPI_COMM_WORLD, IERR)
      IF (CALLS .NE. 8 .OR. SENT .NE. 36) STOP 2
      CALL PMPI_BARRIER(MPI_COMM_WORLD, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
