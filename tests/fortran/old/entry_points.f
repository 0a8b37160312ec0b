! ranks: 1 2
! A subroutine with several entries that share saved variables.
      SUBROUTINE EXCH(N)
      INCLUDE 'mpif.h'
      INTEGER N, REQ(2), BUF, V, W, IERR, NP, ME
      SAVE REQ, BUF, ME, NP
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      BUF = 0
      CALL MPI_RECV_INIT(BUF, 1, MPI_INTEGER, MOD(ME+NP-1, NP), N,
     &                   MPI_COMM_WORLD, REQ(1), IERR)
      RETURN
      ENTRY EXCHG(V, N)
      CALL MPI_START(REQ(1), IERR)
      CALL MPI_SEND(V, 1, MPI_INTEGER, MOD(ME+1, NP), N,
     &              MPI_COMM_WORLD, IERR)
      RETURN
      ENTRY EXCHW(W)
      CALL MPI_WAIT(REQ(1), MPI_STATUS_IGNORE, IERR)
      CALL MPI_F_SYNC_REG(BUF)
      W = BUF
      RETURN
      ENTRY EXCHF
      CALL MPI_REQUEST_FREE(REQ(1), IERR)
      END

      PROGRAM ENTRYS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, K, GOT
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      CALL EXCH(6)
      DO 10 K = 1, 5
         CALL EXCHG(10*ME + K, 6)
         CALL EXCHW(GOT)
         IF (GOT .NE. 10*MOD(ME+NP-1, NP) + K) STOP 1
   10 CONTINUE
      CALL EXCHF
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
