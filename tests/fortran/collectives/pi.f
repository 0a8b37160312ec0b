! ranks: 1 2 4
! The first program of many courses: pi by the midpoint rule.
      PROGRAM PI
      INCLUDE 'mpif.h'
      DOUBLE PRECISION PI25, MYPI, PIS, H, SUM, X, F, A
      PARAMETER (PI25 = 3.141592653589793238462643D0)
      INTEGER N, MYID, NUMPRC, I, IERR
      F(A) = 4.D0 / (1.D0 + A*A)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, MYID, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NUMPRC, IERR)
      N = 0
      IF (MYID .EQ. 0) N = 2000
      CALL MPI_BCAST(N, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, IERR)
      H = 1.0D0/N
      SUM = 0.0D0
      DO 20 I = MYID+1, N, NUMPRC
         X = H * (DBLE(I) - 0.5D0)
         SUM = SUM + F(X)
   20 CONTINUE
      MYPI = H * SUM
      CALL MPI_REDUCE(MYPI, PIS, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0,
     &                MPI_COMM_WORLD, IERR)
      IF (MYID .EQ. 0 .AND. ABS(PIS - PI25) .GT. 1D-6) STOP 1
      CALL MPI_FINALIZE(IERR)
      IF (MYID .EQ. 0) PRINT '(A)', 'ok'
      END
