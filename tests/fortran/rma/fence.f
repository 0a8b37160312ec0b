! ranks: 1 2 4
! Windows with fences: each process puts its number at its neighbour.
      PROGRAM FENCES
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, WIN, A(4), B(4), I, RIGHT, LEFT
      INTEGER(KIND=MPI_ADDRESS_KIND) SIZE, DISP
      COMMON /MEM/ A, B
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      RIGHT = MOD(ME+1, NP)
      LEFT = MOD(ME+NP-1, NP)
      DO 10 I = 1, 4
         A(I) = -1
         B(I) = 10*ME + I
   10 CONTINUE
      SIZE = 16
      CALL MPI_WIN_CREATE(A, SIZE, 4, MPI_INFO_NULL, MPI_COMM_WORLD,
     &                    WIN, IERR)
      CALL MPI_WIN_FENCE(MPI_MODE_NOPRECEDE, WIN, IERR)
      DISP = 1
      CALL MPI_PUT(B(2), 2, MPI_INTEGER, RIGHT, DISP, 2, MPI_INTEGER,
     &             WIN, IERR)
      CALL MPI_WIN_FENCE(0, WIN, IERR)
      CALL MPI_F_SYNC_REG(A)
      IF (A(1) .NE. -1 .OR. A(4) .NE. -1) STOP 1
      IF (A(2) .NE. 10*LEFT + 2 .OR. A(3) .NE. 10*LEFT + 3) STOP 2
      DISP = 2
      CALL MPI_GET(B(4), 1, MPI_INTEGER, RIGHT, DISP, 1, MPI_INTEGER,
     &             WIN, IERR)
      CALL MPI_WIN_FENCE(MPI_MODE_NOSUCCEED, WIN, IERR)
      CALL MPI_F_SYNC_REG(B)
      IF (B(4) .NE. 10*ME + 3) STOP 3
      CALL MPI_WIN_FREE(WIN, IERR)
      IF (WIN .NE. MPI_WIN_NULL) STOP 4
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
