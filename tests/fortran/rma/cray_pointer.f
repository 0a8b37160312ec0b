! ranks: 1 2
! options: -fcray-pointer
! not for flang: it needs no option for Cray pointers and refuses -fcray-pointer
! Memory of the library by Cray pointers, as old programs take it.
      PROGRAM CRAY
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, I, WIN
      INTEGER(KIND=MPI_ADDRESS_KIND) SIZE, DISP
      DOUBLE PRECISION A(10), W(5)
      POINTER (PA, A)
      POINTER (PW, W)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      SIZE = 80
      CALL MPI_ALLOC_MEM(SIZE, MPI_INFO_NULL, PA, IERR)
      DO 10 I = 1, 10
         A(I) = ME + I/8D0
   10 CONTINUE
      CALL MPI_SENDRECV(A, 5, MPI_DOUBLE_PRECISION, MOD(ME+1, NP), 1,
     &                  A(6), 5, MPI_DOUBLE_PRECISION, MOD(ME+NP-1, NP),
     &                  1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, IERR)
      DO 20 I = 1, 5
         IF (A(5+I) .NE. MOD(ME+NP-1, NP) + I/8D0) STOP 1
   20 CONTINUE
      SIZE = 40
      CALL MPI_WIN_ALLOCATE(SIZE, 8, MPI_INFO_NULL, MPI_COMM_WORLD, PW,
     &                      WIN, IERR)
      CALL MPI_WIN_FENCE(0, WIN, IERR)
      DISP = 0
      CALL MPI_PUT(A, 5, MPI_DOUBLE_PRECISION, MOD(ME+1, NP), DISP, 5,
     &             MPI_DOUBLE_PRECISION, WIN, IERR)
      CALL MPI_WIN_FENCE(0, WIN, IERR)
      DO 30 I = 1, 5
         IF (W(I) .NE. A(5+I)) STOP 2
   30 CONTINUE
      CALL MPI_WIN_FREE(WIN, IERR)
      CALL MPI_FREE_MEM(A, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
