! ranks: 1 2 4
! Each predefined operation on integers.
      PROGRAM REDOPS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, K, OPS(7), WANT(7), GOT, R, V
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      OPS(1) = MPI_SUM
      OPS(2) = MPI_PROD
      OPS(3) = MPI_MAX
      OPS(4) = MPI_MIN
      OPS(5) = MPI_BAND
      OPS(6) = MPI_BOR
      OPS(7) = MPI_BXOR
      DO 10 K = 1, 7
         WANT(K) = 3
   10 CONTINUE
      DO 20 R = 1, NP - 1
         V = 2*R + 3
         WANT(1) = WANT(1) + V
         WANT(2) = WANT(2) * V
         WANT(3) = MAX(WANT(3), V)
         WANT(4) = MIN(WANT(4), V)
         WANT(5) = IAND(WANT(5), V)
         WANT(6) = IOR(WANT(6), V)
         WANT(7) = IEOR(WANT(7), V)
   20 CONTINUE
      DO 30 K = 1, 7
         GOT = -1
         CALL MPI_REDUCE(2*ME + 3, GOT, 1, MPI_INTEGER, OPS(K), NP-1,
     &                   MPI_COMM_WORLD, IERR)
         IF (ME .EQ. NP-1 .AND. GOT .NE. WANT(K)) STOP 1
         IF (ME .NE. NP-1 .AND. GOT .NE. -1) STOP 2
         GOT = 0
         CALL MPI_ALLREDUCE(2*ME + 3, GOT, 1, MPI_INTEGER, OPS(K),
     &                      MPI_COMM_WORLD, IERR)
         IF (GOT .NE. WANT(K)) STOP 3
   30 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
