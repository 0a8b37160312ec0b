! ranks: 1 2 4
! Each process writes its records at its place, and reads those of its neighbour.
      PROGRAM WRTAT
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER N
      PARAMETER (N=10)
      INTEGER IERR, ME, NP, FH, I, A(N), K, S(MPI_STATUS_SIZE), R
      INTEGER(KIND=MPI_OFFSET_KIND) OFF, SIZE
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      CALL MPI_FILE_OPEN(MPI_COMM_WORLD, 'records.dat',
     &     MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, FH, IERR)
      IF (IERR .NE. MPI_SUCCESS) STOP 1
      DO 10 I = 1, N
         A(I) = 1000*ME + I
   10 CONTINUE
      OFF = 4*N*ME
      CALL MPI_FILE_WRITE_AT(FH, OFF, A, N, MPI_INTEGER, S, IERR)
      CALL MPI_GET_COUNT(S, MPI_INTEGER, K, IERR)
      IF (K .NE. N) STOP 2
      CALL MPI_FILE_SYNC(FH, IERR)
      CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
      CALL MPI_FILE_SYNC(FH, IERR)
      CALL MPI_FILE_GET_SIZE(FH, SIZE, IERR)
      IF (SIZE .NE. 4*N*NP) STOP 3
      R = MOD(ME+1, NP)
      OFF = 4*N*R
      CALL MPI_FILE_READ_AT_ALL(FH, OFF, A, N, MPI_INTEGER, S, IERR)
      DO 20 I = 1, N
         IF (A(I) .NE. 1000*R + I) STOP 4
   20 CONTINUE
C     Nothing stands behind the end.
      OFF = SIZE
      CALL MPI_FILE_READ_AT(FH, OFF, A, N, MPI_INTEGER, S, IERR)
      CALL MPI_GET_COUNT(S, MPI_INTEGER, K, IERR)
      IF (K .NE. 0) STOP 5
      CALL MPI_FILE_CLOSE(FH, IERR)
      IF (FH .NE. MPI_FILE_NULL) STOP 6
      IF (ME .EQ. 0) CALL MPI_FILE_DELETE('records.dat', MPI_INFO_NULL,
     &                                    IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
