! ranks: 1 2 4
! All processes collect pieces of different lengths.
      PROGRAM ALLGV
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER MAXP
      PARAMETER (MAXP=16)
      INTEGER IERR, ME, NP, I, J, K
      INTEGER CNT(MAXP), DSP(MAXP)
      DOUBLE PRECISION OWN(MAXP), ALL(MAXP*MAXP)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      K = NP - ME
      DO 10 I = 1, K
         OWN(I) = ME + I/16D0
   10 CONTINUE
      CALL MPI_ALLGATHER(K, 1, MPI_INTEGER, CNT, 1, MPI_INTEGER,
     &                   MPI_COMM_WORLD, IERR)
      DSP(1) = 0
      DO 20 I = 2, NP
         DSP(I) = DSP(I-1) + CNT(I-1)
   20 CONTINUE
      CALL MPI_ALLGATHERV(OWN, K, MPI_DOUBLE_PRECISION, ALL, CNT, DSP,
     &                    MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, IERR)
      K = 0
      DO 40 J = 0, NP - 1
         DO 30 I = 1, NP - J
            K = K + 1
            IF (ALL(K) .NE. J + I/16D0) STOP 1
   30    CONTINUE
   40 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
