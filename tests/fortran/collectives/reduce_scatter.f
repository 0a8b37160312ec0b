! ranks: 1 2 4
! Sums of vectors, of which each process gets a part.
      PROGRAM REDSCA
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER MAXP
      PARAMETER (MAXP=16)
      INTEGER IERR, ME, NP, I, N, S, CNT(MAXP), FIRST
      INTEGER A(MAXP*MAXP), B(MAXP)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      N = 0
      FIRST = 0
      DO 10 I = 1, NP
         CNT(I) = I
         IF (I .LE. ME) FIRST = FIRST + I
         N = N + I
   10 CONTINUE
      DO 20 I = 1, N
         A(I) = I*(ME+1)
   20 CONTINUE
      S = NP*(NP+1)/2
      B(ME+2) = -5
      CALL MPI_REDUCE_SCATTER(A, B, CNT, MPI_INTEGER, MPI_SUM,
     &                        MPI_COMM_WORLD, IERR)
      DO 30 I = 1, ME + 1
         IF (B(I) .NE. S*(FIRST+I)) STOP 1
   30 CONTINUE
      IF (B(ME+2) .NE. -5) STOP 2
      CALL MPI_REDUCE_SCATTER_BLOCK(A, B, 1, MPI_INTEGER, MPI_SUM,
     &                              MPI_COMM_WORLD, IERR)
      IF (B(1) .NE. S*(ME+1)) STOP 3
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
