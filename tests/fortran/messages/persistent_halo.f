! ranks: 2 4
! Persistent requests exchange a halo many times.
      PROGRAM PERSIS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER N
      PARAMETER (N=5)
      INTEGER IERR, ME, NP, LEFT, RIGHT, I, STEP, REQS(4)
      INTEGER STATS(MPI_STATUS_SIZE, 4)
      REAL U(0:N+1)
      COMMON /FIELD/ U
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      LEFT = MOD(ME + NP - 1, NP)
      RIGHT = MOD(ME + 1, NP)
      CALL MPI_RECV_INIT(U(0), 1, MPI_REAL, LEFT, 1,
     &                   MPI_COMM_WORLD, REQS(1), IERR)
      CALL MPI_RECV_INIT(U(N+1), 1, MPI_REAL, RIGHT, 2,
     &                   MPI_COMM_WORLD, REQS(2), IERR)
      CALL MPI_SEND_INIT(U(N), 1, MPI_REAL, RIGHT, 1,
     &                   MPI_COMM_WORLD, REQS(3), IERR)
      CALL MPI_SSEND_INIT(U(1), 1, MPI_REAL, LEFT, 2,
     &                    MPI_COMM_WORLD, REQS(4), IERR)
      DO 30 STEP = 1, 10
         DO 10 I = 1, N
            U(I) = 1000*STEP + 100*ME + I
   10    CONTINUE
         CALL MPI_STARTALL(4, REQS, IERR)
         CALL MPI_WAITALL(4, REQS, STATS, IERR)
         CALL MPI_F_SYNC_REG(U)
         IF (U(0) .NE. 1000*STEP + 100*LEFT + N) STOP 1
         IF (U(N+1) .NE. 1000*STEP + 100*RIGHT + 1) STOP 2
         IF (STATS(MPI_SOURCE, 1) .NE. LEFT) STOP 3
         IF (STATS(MPI_TAG, 2) .NE. 2) STOP 4
   30 CONTINUE
      DO 40 I = 1, 4
         CALL MPI_REQUEST_FREE(REQS(I), IERR)
         IF (REQS(I) .NE. MPI_REQUEST_NULL) STOP 5
   40 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
