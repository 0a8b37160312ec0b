! ranks: 1 2 4
! DOUBLE COMPLEX sums and statement functions, as in old numerical codes.
      PROGRAM DBLCPX
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, K, N
      PARAMETER (N=16)
      DOUBLE COMPLEX Z, PART, ALL, W, ROOT
      DOUBLE PRECISION PHI
      ROOT(K) = DCMPLX(COS(PHI*K), SIN(PHI*K))
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      PHI = 8*ATAN(1D0)/N
      PART = 0
      DO 10 K = ME, N-1, NP
         Z = ROOT(K)
         PART = PART + K*Z
   10 CONTINUE
      CALL MPI_ALLREDUCE(PART, ALL, 1, MPI_DOUBLE_COMPLEX, MPI_SUM,
     &                   MPI_COMM_WORLD, IERR)
C     The sum of k*w**k is n/(w-1).
      W = N/(ROOT(1) - 1)
      IF (ABS(ALL - W) .GT. 1D-10) STOP 1
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
